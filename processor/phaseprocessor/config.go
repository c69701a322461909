// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configretry"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/engine"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

// Config is the configuration of the phase processor.
type Config struct {
	// Engines say by which names and units serving engines report requests. A
	// span belongs to the first entry that has a role for it. An empty list
	// leaves all request spans alone.
	Engines []EngineConfig `mapstructure:"engines"`

	// Contract says how request traces are checked.
	Contract ContractConfig `mapstructure:"contract"`

	// Join says how host runs and requests are brought together.
	Join JoinConfig `mapstructure:"join"`

	// Callable says how host runs get the name of what they ran.
	Callable CallableConfig `mapstructure:"callable"`

	// MaxProcesses bounds the processes, and the devices, whose previous run is
	// remembered for phase.prepare_overlap and phase.device_gap.
	MaxProcesses int `mapstructure:"max_processes"`

	// Retry says how request spans that were held are offered again when the
	// next component refuses them.
	Retry configretry.BackOffConfig `mapstructure:"retry_on_failure"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// EngineConfig is one engine's vocabulary: a preset and what differs from it.
type EngineConfig struct {
	// Preset is atom, vllm or sglang.
	Preset string `mapstructure:"preset"`

	// Services limits the entry to these service.name values. Empty: all.
	Services []string `mapstructure:"services"`

	// Spans replaces the span names of a role: request, engine, thread, queue,
	// prefill or decode. A * stands for any text.
	Spans map[string][]string `mapstructure:"spans"`

	// Keys replaces the attribute keys of a field, each with its unit.
	Keys map[string][]KeyConfig `mapstructure:"keys"`

	_ struct{}
}

// KeyConfig is an attribute key and the unit of its value.
type KeyConfig struct {
	// Key is the attribute's name.
	Key string `mapstructure:"key"`

	// Unit is s, ms, us or ns for a duration, empty for anything else.
	Unit string `mapstructure:"unit"`

	_ struct{}
}

// ContractConfig is the configuration of the contract check.
type ContractConfig struct {
	// Tolerance is how far times may miss what the contract says.
	Tolerance time.Duration `mapstructure:"tolerance"`

	_ struct{}
}

// JoinConfig is the configuration of the join.
type JoinConfig struct {
	// Enabled switches the join on. Without it requests still get their phases
	// and contract result.
	Enabled bool `mapstructure:"enabled"`

	// GroupBy are the resource attributes within which times are compared: the
	// first that both sides have must be equal.
	GroupBy []string `mapstructure:"group_by"`

	// Wait is how long a request is held after its last piece. 0 holds nothing:
	// each call's request spans are worked on alone.
	Wait time.Duration `mapstructure:"wait"`

	// Retention is how long host runs stay joinable, by their own clock.
	Retention time.Duration `mapstructure:"retention"`

	// RemoteClockError is the bound on the difference between the wall clocks
	// of two hosts, used where a request joins runs of another host.
	RemoteClockError time.Duration `mapstructure:"remote_clock_error"`

	// MaxLinks bounds the span links from a phase to its host runs. 0: none.
	MaxLinks int `mapstructure:"max_links"`

	// Embed is how many of the slowest host runs of a phase are copied into the
	// request's trace. 0: none.
	Embed int `mapstructure:"embed"`

	// MaxRequests and MaxRequestSpans bound the requests held.
	MaxRequests     int `mapstructure:"max_requests"`
	MaxRequestSpans int `mapstructure:"max_request_spans"`

	// MaxRuns bounds the host runs in the index, over all groups.
	MaxRuns int `mapstructure:"max_runs"`

	// MaxEmbedSpans bounds the host spans kept for copying.
	MaxEmbedSpans int `mapstructure:"max_embed_spans"`

	// MaxPieceSpans bounds what is remembered of host traces that come in
	// several pieces.
	MaxPieceSpans int `mapstructure:"max_piece_spans"`

	_ struct{}
}

// CallableConfig is the configuration of strace.callable.
type CallableConfig struct {
	// Names are the callables known by their hid, in lower-case hex.
	Names map[string]string `mapstructure:"names"`

	_ struct{}
}

var _ component.Config = (*Config)(nil)

func createDefaultConfig() component.Config {
	return &Config{
		Engines:  []EngineConfig{{Preset: engine.PresetATOM}},
		Contract: ContractConfig{Tolerance: 5 * time.Millisecond},
		Join: JoinConfig{
			Enabled:          true,
			GroupBy:          []string{"k8s.pod.uid", "host.name"},
			Wait:             2 * time.Second,
			Retention:        5 * time.Minute,
			RemoteClockError: 5 * time.Millisecond,
			MaxLinks:         32,
			Embed:            1,
			MaxRequests:      20_000,
			MaxRequestSpans:  200_000,
			MaxRuns:          500_000,
			MaxEmbedSpans:    65_536,
			MaxPieceSpans:    65_536,
		},
		MaxProcesses: 4096,
		Retry: configretry.BackOffConfig{
			Enabled:             true,
			InitialInterval:     200 * time.Millisecond,
			RandomizationFactor: 0.5,
			Multiplier:          1.5,
			MaxInterval:         5 * time.Second,
			MaxElapsedTime:      time.Minute,
		},
	}
}

// Validate checks the configuration.
func (c *Config) Validate() error {
	var errs []error
	if _, err := c.tables(); err != nil {
		errs = append(errs, err)
	}
	if c.Contract.Tolerance < 0 {
		errs = append(errs, fmt.Errorf("contract::tolerance is %v: it must not be negative", c.Contract.Tolerance))
	}
	if c.MaxProcesses <= 0 {
		errs = append(errs, fmt.Errorf("max_processes is %d: it must be at least 1", c.MaxProcesses))
	}
	errs = append(errs, c.Join.validate(), c.Callable.validate())
	return errors.Join(errs...)
}

func (c *JoinConfig) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("join::"+format, args...)) }
	if n := len(c.GroupBy); n == 0 || n > phases.MaxGroupKeys {
		fail("group_by has %d attributes: give 1 to %d", n, phases.MaxGroupKeys)
	}
	for _, key := range c.GroupBy {
		if key == "" {
			fail("group_by has an empty entry: give the name of a resource attribute")
		}
	}
	if c.Wait < 0 {
		fail("wait is %v: it must not be negative, 0 holds nothing", c.Wait)
	}
	if c.Retention <= c.Wait {
		fail("retention is %v: it must be longer than wait (%v)", c.Retention, c.Wait)
	}
	if c.RemoteClockError < 0 {
		fail("remote_clock_error is %v: it must not be negative", c.RemoteClockError)
	}
	for _, bound := range []struct {
		name       string
		value, min int
	}{
		{"max_links", c.MaxLinks, 0},
		{"embed", c.Embed, 0},
		{"max_requests", c.MaxRequests, 1},
		{"max_request_spans", c.MaxRequestSpans, 1},
		{"max_runs", c.MaxRuns, 1},
		{"max_embed_spans", c.MaxEmbedSpans, 0},
		{"max_piece_spans", c.MaxPieceSpans, 0},
	} {
		if bound.value < bound.min {
			fail("%s is %d: it must be at least %d", bound.name, bound.value, bound.min)
		}
	}
	return errors.Join(errs...)
}

func (c *CallableConfig) validate() error {
	for hid, name := range c.Names {
		switch {
		case hid == "" || !isLowerHex(hid):
			return fmt.Errorf("callable::names has the key %q: give the hid in lower-case hex, as in strace.hid", hid)
		case isZero(hid):
			return errors.New("callable::names has the hid 0: it names nothing, some runtimes never set it")
		case name == "":
			return fmt.Errorf("callable::names::%s is empty: give the callable's name", hid)
		}
	}
	return nil
}

func isLowerHex(s string) bool {
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func isZero(hid string) bool {
	for _, c := range hid {
		if c != '0' {
			return false
		}
	}
	return true
}

// tables makes the engines' tables, in order.
func (c *Config) tables() ([]*engine.Table, error) {
	tables := make([]*engine.Table, 0, len(c.Engines))
	for i, e := range c.Engines {
		keys := make(map[string][]engine.KeyOverride, len(e.Keys))
		for field, row := range e.Keys {
			for _, k := range row {
				keys[field] = append(keys[field], engine.KeyOverride{Key: k.Key, Unit: k.Unit})
			}
			if len(row) == 0 {
				keys[field] = nil
			}
		}
		t, err := engine.New(e.Preset, e.Services, e.Spans, keys)
		if err != nil {
			return nil, fmt.Errorf("engines::%d: %w", i, err)
		}
		tables = append(tables, t)
	}
	return tables, nil
}
