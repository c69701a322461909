// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver // import "github.com/phasecol/phasecol/receiver/stracelogreceiver"

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/stanza/fileconsumer/matcher"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configretry"

	"github.com/phasecol/phasecol/pkg/strace"
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

	Clock ClockConfig `mapstructure:"clock"`

	// Linger is how long a closed invocation waits for swapped neighbours.
	Linger time.Duration `mapstructure:"linger"`
	// MaxOpen is how long an invocation or run without end may be silent.
	MaxOpen time.Duration `mapstructure:"max_open"`
	// StitchWait is how long a complete invocation waits for its L3 run.
	StitchWait time.Duration `mapstructure:"stitch_wait"`

	Limits         LimitsConfig              `mapstructure:"limits"`
	RetryOnFailure configretry.BackOffConfig `mapstructure:"retry_on_failure"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// ClockConfig says how spans get their wall time.
type ClockConfig struct {
	// Sources lists anchor, record, host and mtime in order of preference.
	Sources []string `mapstructure:"sources"`
	// TimeZone is the IANA name of the zone of wall-time prefixes.
	TimeZone string `mapstructure:"time_zone"`
	// OnNone is refuse or read_time.
	OnNone string `mapstructure:"on_none"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// LimitsConfig bounds what is held in memory.
type LimitsConfig struct {
	Invocations int `mapstructure:"invocations"`
	Runs        int `mapstructure:"runs"`
	Bytes       int `mapstructure:"bytes"`
	Processes   int `mapstructure:"processes"`
	Scopes      int `mapstructure:"scopes"`

	// prevent unkeyed literal initialization
	_ struct{}
}

var _ component.Config = (*Config)(nil)

func createDefaultConfig() component.Config {
	defaults := strace.DefaultConfig()
	retry := configretry.NewDefaultBackOffConfig()
	retry.MaxElapsedTime = 0
	return &Config{
		StartAt:            "end",
		PollInterval:       200 * time.Millisecond,
		MaxConcurrentFiles: 1024,
		Compression:        "auto",
		Format:             "auto",
		ServiceName:        "simpler",
		Clock:              ClockConfig{Sources: []string{"anchor", "record", "host", "mtime"}, OnNone: "refuse"},
		Linger:             defaults.Linger,
		MaxOpen:            defaults.MaxOpen,
		StitchWait:         defaults.StitchWait,
		Limits: LimitsConfig{
			Invocations: defaults.MaxInvocations, Runs: defaults.MaxRuns, Bytes: defaults.MaxBytes,
			Processes: defaults.MaxProcesses, Scopes: defaults.MaxScopes,
		},
		RetryOnFailure: retry,
	}
}

// Validate reports every setting that cannot work, with what to write instead.
func (c *Config) Validate() error {
	var errs error
	bad := func(format string, args ...any) { errs = errors.Join(errs, fmt.Errorf(format, args...)) }

	switch {
	case len(c.Include) == 0:
		bad("include: at least one glob pattern is required, for example /var/log/pods/*/*/*.log*")
	default:
		if _, err := matcher.New(matcher.Criteria{Include: c.Include, Exclude: c.Exclude}); err != nil {
			bad("include, exclude: %w", err)
		}
	}
	oneOf(&errs, "start_at", c.StartAt, "beginning", "end")
	oneOf(&errs, "compression", c.Compression, "auto", "gzip", "none")
	oneOf(&errs, "format", c.Format, "auto", "raw", "cri", "docker")
	oneOf(&errs, "clock::on_none", c.Clock.OnNone, "refuse", "read_time")
	if _, err := c.Clock.sources(); err != nil {
		errs = errors.Join(errs, err)
	}
	if _, err := c.Clock.zone(); err != nil {
		errs = errors.Join(errs, err)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"poll_interval", c.PollInterval},
		{"linger", c.Linger},
		{"max_open", c.MaxOpen},
		{"stitch_wait", c.StitchWait},
	} {
		if d.value <= 0 {
			bad("%s: must be more than 0, is %s", d.name, d.value)
		}
	}
	if c.Linger > c.MaxOpen {
		bad("linger: must not exceed max_open (%s), is %s", c.MaxOpen, c.Linger)
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"max_concurrent_files", c.MaxConcurrentFiles},
		{"limits::invocations", c.Limits.Invocations},
		{"limits::runs", c.Limits.Runs},
		{"limits::bytes", c.Limits.Bytes},
		{"limits::processes", c.Limits.Processes},
		{"limits::scopes", c.Limits.Scopes},
	} {
		if n.value < 1 {
			bad("%s: must be at least 1, is %d", n.name, n.value)
		}
	}
	if err := c.RetryOnFailure.Validate(); err != nil {
		bad("retry_on_failure: %w", err)
	}
	return errs
}

func oneOf(errs *error, name, value string, allowed ...string) {
	for _, a := range allowed {
		if value == a {
			return
		}
	}
	*errs = errors.Join(*errs, fmt.Errorf("%s: must be one of %s, is %q", name, strings.Join(allowed, ", "), value))
}

func (c *ClockConfig) sources() ([]strace.ClockSource, error) {
	known := map[string]strace.ClockSource{}
	for _, s := range strace.DefaultClockSources() {
		known[s.String()] = s
	}
	if len(c.Sources) == 0 {
		return nil, errors.New("clock::sources: at least one of anchor, record, host, mtime is required")
	}
	sources := make([]strace.ClockSource, 0, len(c.Sources))
	for _, name := range c.Sources {
		source, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("clock::sources: must be of anchor, record, host, mtime, each once; got %q", name)
		}
		delete(known, name)
		sources = append(sources, source)
	}
	return sources, nil
}

// zone is nil when no zone is set: the prefixes stay unused then.
func (c *ClockConfig) zone() (*time.Location, error) {
	if c.TimeZone == "" {
		return nil, nil //nolint:nilnil // no zone is a valid answer
	}
	zone, err := time.LoadLocation(c.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("clock::time_zone: must be an IANA name such as Asia/Shanghai or UTC: %w", err)
	}
	return zone, nil
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
