// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import "time"

// NonePolicy says what happens to a trace for which no clock source answers.
type NonePolicy uint8

const (
	// NoneRefuse drops the trace and counts it.
	NoneRefuse NonePolicy = iota
	// NoneReadTime puts its end at the time of reading.
	NoneReadTime
	// NoneMonotonic leaves the record's own monotonic times, for offline use.
	NoneMonotonic
)

// Config sets up an Assembler. DefaultConfig returns usable values; zero
// limits are not "no limit" but invalid.
type Config struct {
	// Host enters every identifier; usually host.name.
	Host string
	// Linger is how long a closed invocation waits for neighbours an
	// asynchronous writer swapped, and a run that got no more records for the
	// invocations it still misses.
	Linger time.Duration
	// HoldForPoll keeps closed invocations at least until the next EndPoll:
	// set it when files are read side by side, so that an invocation whose
	// lines lie in two of them (rotation) is whole. Otherwise they leave once
	// their process has printed Linger beyond them.
	HoldForPoll bool
	// MaxOpen is how long an invocation or a run without end may be silent.
	MaxOpen time.Duration
	// StitchWait is how long a complete invocation waits for its run.
	StitchWait time.Duration
	// ClockSources is the order of preference.
	ClockSources []ClockSource
	// OnNone is what to do when none of them answers.
	OnNone NonePolicy
	// TimeZone is the zone of wall-time prefixes; nil leaves them unused.
	TimeZone *time.Location

	// MaxInvocations bounds invocations held, MaxRuns runs held, MaxBytes the
	// memory of their records, MaxProcesses the processes (clock states)
	// known, MaxScopes the scopes. The oldest incomplete one goes first.
	MaxInvocations, MaxRuns, MaxBytes, MaxProcesses, MaxScopes int

	// Emit receives every finished trace, during a call to the assembler.
	Emit func(*Trace)
}

// DefaultConfig returns the defaults, without Emit and Host.
func DefaultConfig() Config {
	return Config{
		Linger:         250 * time.Millisecond,
		MaxOpen:        time.Minute,
		StitchWait:     time.Second,
		ClockSources:   DefaultClockSources(),
		MaxInvocations: 100_000,
		MaxRuns:        10_000,
		MaxBytes:       64 << 20,
		MaxProcesses:   4096,
		MaxScopes:      1024,
	}
}

// Stats counts what passed through an Assembler since it was made. All are
// totals that only grow, but for the last group, which are levels.
type Stats struct {
	Records [NumOutcomes]uint64
	Traces  [NumTraceKinds]uint64
	// Invocations counts chip invocations with a root, Runs L3 runs.
	Invocations, Runs uint64
	Spans, Events     uint64
	Stitched          [NumStitches]uint64
	GuessedParents    uint64
	DeviceMisfits     uint64
	// ClockJumps counts steps and disagreements between sources.
	ClockJumps uint64
	// Unplaced counts spans for which no clock source answered.
	Unplaced uint64
	// Placed counts spans by the source that placed them.
	Placed [ClockMtime + 1]uint64
	// Evicted counts units sent on early, by the bound that asked for it.
	EvictedInvocations, EvictedRuns, EvictedBytes, EvictedProcesses, EvictedScopes uint64

	Open, Waiting, OpenRuns, HeldBytes, Processes, Scopes int
	// LastClockError is the error of the last trace placed, nanoseconds.
	LastClockError int64
}
