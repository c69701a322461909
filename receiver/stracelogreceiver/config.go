// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver // import "github.com/phasecol/phasecol/receiver/stracelogreceiver"

import (
	"errors"
	"fmt"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/stanza/fileconsumer/matcher"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configretry"

	"github.com/phasecol/phasecol/internal/stracepdata/settings"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
)

// Config is the configuration of the stracelog receiver.
type Config struct {
	// Include and Exclude are glob patterns (** crosses directories). Include
	// must match rotated names too, or a restart after a crash loses their tails.
	Include []string `mapstructure:"include"`
	Exclude []string `mapstructure:"exclude"`
	// StartAt is beginning or end: where reading starts in files that exist at
	// the first start. Files that appear later are read from the beginning.
	StartAt string `mapstructure:"start_at"`
	// PollInterval is how often files are looked at.
	PollInterval time.Duration `mapstructure:"poll_interval"`
	// MaxConcurrentFiles bounds the files held open.
	MaxConcurrentFiles int `mapstructure:"max_concurrent_files"`
	// Compression is auto (gzip by content), gzip or none.
	Compression string `mapstructure:"compression"`
	// Format is auto, raw, cri or docker.
	Format string `mapstructure:"format"`
	// Storage names a storage extension for offsets and what is pending.
	Storage *component.ID `mapstructure:"storage"`

	// ServiceName and HostName become resource attributes; HostName enters
	// every identifier.
	ServiceName string `mapstructure:"service_name"`
	HostName    string `mapstructure:"host_name"`
	// IncludeFilePath adds log.file.path to resources.
	IncludeFilePath bool `mapstructure:"include_file_path"`

	Clock settings.Clock `mapstructure:"clock"`

	// Linger is how long a closed invocation waits for swapped neighbours.
	Linger time.Duration `mapstructure:"linger"`
	// MaxOpen is how long an invocation or run without end may be silent.
	MaxOpen time.Duration `mapstructure:"max_open"`
	// StitchWait is how long a complete invocation waits for its L3 run.
	StitchWait time.Duration `mapstructure:"stitch_wait"`

	Limits         settings.Limits           `mapstructure:"limits"`
	RetryOnFailure configretry.BackOffConfig `mapstructure:"retry_on_failure"`

	// prevent unkeyed literal initialization
	_ struct{}
}

var _ component.Config = (*Config)(nil)

func createDefaultConfig() component.Config {
	waits := settings.NewDefaultWaits()
	retry := configretry.NewDefaultBackOffConfig()
	retry.MaxElapsedTime = 0
	return &Config{
		StartAt:            "end",
		PollInterval:       200 * time.Millisecond,
		MaxConcurrentFiles: 1024,
		Compression:        "auto",
		Format:             "auto",
		ServiceName:        "simpler",
		Clock:              settings.NewDefaultClock(),
		Linger:             waits.Linger,
		MaxOpen:            waits.MaxOpen,
		StitchWait:         waits.StitchWait,
		Limits:             settings.NewDefaultLimits(),
		RetryOnFailure:     retry,
	}
}

// Validate reports every setting that cannot work, with what to write instead.
// The nested ones have a Validate of their own, which the Collector calls.
func (c *Config) Validate() error {
	return errors.Join(
		c.validatePatterns(),
		settings.OneOf("start_at", c.StartAt, "beginning", "end"),
		settings.OneOf("compression", c.Compression, "auto", "gzip", "none"),
		settings.OneOf("format", c.Format, "auto", "raw", "cri", "docker"),
		settings.Positive("poll_interval", c.PollInterval),
		settings.AtLeastOne("max_concurrent_files", c.MaxConcurrentFiles),
		c.waits().Validate(),
	)
}

func (c *Config) validatePatterns() error {
	if len(c.Include) == 0 {
		return errors.New("include: at least one glob pattern is required, for example /var/log/pods/*/*/*.log*")
	}
	if _, err := matcher.New(matcher.Criteria{Include: c.Include, Exclude: c.Exclude}); err != nil {
		return fmt.Errorf("include, exclude: %w", err)
	}
	return nil
}

func (c *Config) waits() settings.Waits {
	return settings.Waits{Linger: c.Linger, MaxOpen: c.MaxOpen, StitchWait: c.StitchWait}
}

func (c *Config) format() container.Format {
	switch c.Format {
	case "raw":
		return container.Raw
	case "cri":
		return container.CRI
	case "docker":
		return container.Docker
	default:
		return container.Auto
	}
}
