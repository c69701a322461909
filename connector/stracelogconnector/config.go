// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogconnector // import "github.com/phasecol/phasecol/connector/stracelogconnector"

import (
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configretry"

	"github.com/phasecol/phasecol/internal/stracepdata/settings"
)

// Config is the configuration of the stracelog connector.
type Config struct {
	// ServiceName is service.name where the log's resource has none.
	ServiceName string `mapstructure:"service_name"`

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
	clock := settings.NewDefaultClock()
	clock.Sources = []string{"anchor", "record"}
	retry := configretry.NewDefaultBackOffConfig()
	retry.MaxElapsedTime = 0
	return &Config{
		ServiceName:    "simpler",
		Clock:          clock,
		Linger:         waits.Linger,
		MaxOpen:        waits.MaxOpen,
		StitchWait:     waits.StitchWait,
		Limits:         settings.NewDefaultLimits(),
		RetryOnFailure: retry,
	}
}

// Validate reports every setting that cannot work, with what to write instead.
// The nested ones have a Validate of their own, which the Collector calls.
func (c *Config) Validate() error {
	var errs error
	if slices.Contains(c.Clock.Sources, "host") || slices.Contains(c.Clock.Sources, "mtime") {
		errs = errors.New("clock::sources: host and mtime need the log file, which a connector does not see; use anchor and record, or the stracelog receiver")
	}
	return errors.Join(errs, c.waits().Validate())
}

func (c *Config) waits() settings.Waits {
	return settings.Waits{Linger: c.Linger, MaxOpen: c.MaxOpen, StitchWait: c.StitchWait}
}
