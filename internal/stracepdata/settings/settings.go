// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package settings holds the part of the configuration that the stracelog
// receiver and the stracelog connector share, and its translation for
// pkg/strace.
package settings // import "github.com/phasecol/phasecol/internal/stracepdata/settings"

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // an image from scratch has no zones

	"github.com/phasecol/phasecol/pkg/strace"
)

// Clock says how spans get their wall time.
type Clock struct {
	// Sources lists anchor, record, host and mtime in order of preference.
	Sources []string `mapstructure:"sources"`
	// TimeZone is the IANA name of the zone of wall-time prefixes; empty
	// leaves them unused.
	TimeZone string `mapstructure:"time_zone"`
	// OnNone is refuse or read_time: what happens to a trace for which no
	// source answers.
	OnNone string `mapstructure:"on_none"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Limits bound what is held in memory.
type Limits struct {
	Invocations int `mapstructure:"invocations"`
	Runs        int `mapstructure:"runs"`
	Bytes       int `mapstructure:"bytes"`
	Processes   int `mapstructure:"processes"`
	Scopes      int `mapstructure:"scopes"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// NewDefaultClock prefers the most exact source and refuses to guess.
func NewDefaultClock() Clock {
	return Clock{Sources: names(strace.DefaultClockSources()), OnNone: "refuse"}
}

// NewDefaultLimits returns the assembler's own.
func NewDefaultLimits() Limits {
	d := strace.DefaultConfig()
	return Limits{
		Invocations: d.MaxInvocations, Runs: d.MaxRuns, Bytes: d.MaxBytes,
		Processes: d.MaxProcesses, Scopes: d.MaxScopes,
	}
}

// Validate names the setting that cannot work and what to write instead.
func (c *Clock) Validate() error {
	_, sourcesErr := c.sources()
	_, zoneErr := c.zone()
	return errors.Join(sourcesErr, zoneErr, OneOf("on_none", c.OnNone, "refuse", "read_time"))
}

// Validate names every limit that is not positive.
func (l *Limits) Validate() error {
	return errors.Join(
		AtLeastOne("invocations", l.Invocations), AtLeastOne("runs", l.Runs), AtLeastOne("bytes", l.Bytes),
		AtLeastOne("processes", l.Processes), AtLeastOne("scopes", l.Scopes),
	)
}

// Waits are how long a receiver or connector waits for what is missing.
type Waits struct{ Linger, MaxOpen, StitchWait time.Duration }

// NewDefaultWaits returns the assembler's own.
func NewDefaultWaits() Waits {
	d := strace.DefaultConfig()
	return Waits{Linger: d.Linger, MaxOpen: d.MaxOpen, StitchWait: d.StitchWait}
}

// Validate names the setting that cannot work.
func (w Waits) Validate() error {
	err := errors.Join(Positive("linger", w.Linger), Positive("max_open", w.MaxOpen), Positive("stitch_wait", w.StitchWait))
	if w.Linger > w.MaxOpen {
		err = errors.Join(err, fmt.Errorf("linger: must not exceed max_open (%s), is %s", w.MaxOpen, w.Linger))
	}
	return err
}

// Assembler translates the settings. Emit and HoldForPoll are left to the
// caller.
func Assembler(host string, c *Clock, l *Limits, w Waits) (strace.Config, error) {
	sources, err := c.sources()
	if err != nil {
		return strace.Config{}, fmt.Errorf("clock: %w", err)
	}
	zone, err := c.zone()
	if err != nil {
		return strace.Config{}, fmt.Errorf("clock: %w", err)
	}
	onNone := strace.NoneRefuse
	if c.OnNone == "read_time" {
		onNone = strace.NoneReadTime
	}
	return strace.Config{
		Host: host, Linger: w.Linger, MaxOpen: w.MaxOpen, StitchWait: w.StitchWait,
		ClockSources: sources, OnNone: onNone, TimeZone: zone,
		MaxInvocations: l.Invocations, MaxRuns: l.Runs, MaxBytes: l.Bytes,
		MaxProcesses: l.Processes, MaxScopes: l.Scopes,
	}, nil
}

func names(sources []strace.ClockSource) []string {
	n := make([]string, 0, len(sources))
	for _, s := range sources {
		n = append(n, s.String())
	}
	return n
}

func (c *Clock) sources() ([]strace.ClockSource, error) {
	known := strace.DefaultClockSources()
	all := strings.Join(names(known), ", ")
	if len(c.Sources) == 0 {
		return nil, fmt.Errorf("sources: at least one of %s is required", all)
	}
	sources := make([]strace.ClockSource, 0, len(c.Sources))
	for _, name := range c.Sources {
		i := slices.IndexFunc(known, func(s strace.ClockSource) bool { return s.String() == name })
		if i < 0 || slices.Contains(sources, known[i]) {
			return nil, fmt.Errorf("sources: must be of %s, each once; got %q", all, name)
		}
		sources = append(sources, known[i])
	}
	return sources, nil
}

// zone is nil when no zone is set: the prefixes stay unused then.
func (c *Clock) zone() (*time.Location, error) {
	if c.TimeZone == "" {
		return nil, nil //nolint:nilnil // no zone is a valid answer
	}
	zone, err := time.LoadLocation(c.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("time_zone: must be an IANA name such as Asia/Shanghai or UTC: %w", err)
	}
	return zone, nil
}

// OneOf is an error that names the setting unless value is among allowed.
func OneOf(name, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s: must be one of %s, is %q", name, strings.Join(allowed, ", "), value)
}

// Positive is an error that names the setting unless value is more than 0.
func Positive(name string, value time.Duration) error {
	if value > 0 {
		return nil
	}
	return fmt.Errorf("%s: must be more than 0, is %s", name, value)
}

// AtLeastOne is an error that names the setting when value is below 1.
func AtLeastOne(name string, value int) error {
	if value >= 1 {
		return nil
	}
	return fmt.Errorf("%s: must be at least 1, is %d", name, value)
}
