// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

// Kind says what Scanner.Next found.
type Kind uint8

const (
	// KindNone: the line holds nothing more.
	KindNone Kind = iota
	// KindRecord: Scanner.Record is a span or a point.
	KindRecord
	// KindAnchor: Scanner.Anchor is a clock anchor.
	KindAnchor
	// KindDrops: Scanner.Drops reports records the runtime lost.
	KindDrops
	// KindReady: Scanner.Ready ties a worker's pid to its device.
	KindReady
	// KindBad: a marker that is no record; Scanner.Outcome says why.
	KindBad
)

// Outcome classifies every marker that was met.
type Outcome uint8

const (
	// OutcomeSpan is a record with a duration.
	OutcomeSpan Outcome = iota
	// OutcomePoint is a record whose dur is 0.
	OutcomePoint
	// OutcomeTorn is a marker cut before its dur was complete.
	OutcomeTorn
	// OutcomeUnknownVersion is a marker with a v other than 1.
	OutcomeUnknownVersion
	// OutcomeMalformed is a marker with a field that breaks the grammar, or a
	// negative or overflowing number.
	OutcomeMalformed
	// OutcomeDuplicate is a record that its invocation already holds.
	OutcomeDuplicate

	// NumOutcomes sizes arrays indexed by Outcome.
	NumOutcomes
)

// String returns the outcome as telemetry names it.
func (o Outcome) String() string {
	switch o {
	case OutcomeSpan:
		return "span"
	case OutcomePoint:
		return "point"
	case OutcomeTorn:
		return "torn"
	case OutcomeUnknownVersion:
		return "unknown_version"
	case OutcomeMalformed:
		return "malformed"
	case OutcomeDuplicate:
		return "duplicate"
	default:
		return "unknown"
	}
}

// MaxTS bounds ts, dur and their sum, in nanoseconds: 36 years of uptime.
// Beyond it the sum of a host time, a device time and an offset to the wall
// clock could overflow, so such records are malformed.
const MaxTS = int64(1) << 60

// maxWall bounds an anchor's wall time: the year 2116.
const maxWall = int64(1) << 62

// Record is one [STRACE] line of grammar v1. Attrs aliases the scanned line:
// copy it before the line is reused.
type Record struct {
	// Name is interned; it lives as long as the Names it came from.
	Name *Name
	PID  int32
	TID  int64
	Inv  uint64
	// HID is the callable hash; HIDDigits is how many digits were written.
	HID       uint64
	HIDDigits uint8
	Depth     int32
	// TS and Dur are nanoseconds, TS on the clock Device tells.
	TS, Dur int64
	// Device is true where TS counts on the device clock from the
	// invocation's own origin.
	Device bool
	// Verbatim is true for generations that do not percent-encode.
	Verbatim bool
	// Attrs is the raw text behind dur, without foreign tails.
	Attrs []byte
	// Mono is the prefix's mono_ns, the emission time; 0 when absent.
	Mono int64
	// Wall is the text of a "[2026-01-02 03:04:05.000006]" prefix, brackets
	// stripped; nil when absent or when several prefixes were stacked, so
	// that it is not known whose it is. It aliases the line.
	Wall []byte
}

// End is TS+Dur; the scanner has excluded overflow.
func (r *Record) End() int64 { return r.TS + r.Dur }

// Anchor pairs CLOCK_MONOTONIC with the wall clock for one process.
type Anchor struct {
	PID int32
	// Mono and Wall are nanoseconds; Wall since the Unix epoch.
	Mono, Wall int64
}

// Drops is a [HOSTLOG_DROPS] report: how many records one process lost.
type Drops struct {
	PID                                                  int32
	New, Total                                           uint64
	QueueFull, ClaimExhausted, OutputFailed, NotAdmitted uint64
	// Mono is the report's own mono_ns; 0 when absent.
	Mono int64
}

// Ready is a "[chip_process pid=P dev=D] ready" line.
type Ready struct {
	PID, Dev int32
}
