// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package feed takes log text to an assembler: it is what the stracelog
// receiver and the stracelog connector have in common between the text they
// get and the traces they send.
package feed // import "github.com/phasecol/phasecol/internal/stracepdata/feed"

import "github.com/phasecol/phasecol/pkg/strace"

// Feed scans text and files what it holds. It is not safe for concurrent use.
type Feed struct {
	// Assembler gets the records. Its calls that need no text (Tick, EndPoll,
	// Flush, Stats, SetHostClock) are the caller's.
	Assembler *strace.Assembler

	scanner *strace.Scanner
	onDrops func(Loss)
	// losses holds the last report of each process.
	losses  map[processKey]strace.Drops
	maxKept int
}

// Loss is what a runtime says it lost since it last said so.
type Loss struct {
	ScopeKey string
	PID      int32
	// Total is the process's own count. Grown holds what is new, by reason;
	// its Total is the sum.
	Total uint64
	Grown strace.Drops
}

type processKey struct {
	scope string
	pid   int32
}

// Source is where lines come from: what is known of one file.
type Source struct {
	// Clock is the file's own evidence of wall time. Call Changed after
	// writing to it.
	Clock strace.FileClock
	// OnProcess, unless nil, is told of each process before its records are
	// filed, and again when others' came between.
	OnProcess func(pid int32)

	// noted is the process that was last told of Clock; valid only if told.
	noted int32
	told  bool
}

// Changed makes the next record pass Clock on.
func (s *Source) Changed() { s.told = false }

// Line is one line of text.
type Line struct {
	Scope *strace.Scope
	// From is nil where there is no file.
	From *Source
	// Text has no line feed; Ended tells that one followed.
	Text  []byte
	Ended bool
	// Stamped is when someone else read the line, Unix ns, or 0.
	Stamped int64
	// Now is the wall time, Unix ns.
	Now int64
}

// New returns a feed. onDrops is told of records that never reached the log.
func New(cfg strace.Config, onDrops func(Loss)) (*Feed, error) {
	names := strace.NewNames()
	asm, err := strace.NewAssembler(cfg, names)
	if err != nil {
		return nil, err
	}
	return &Feed{
		Assembler: asm, scanner: strace.NewScanner(names), onDrops: onDrops,
		losses: map[processKey]strace.Drops{}, maxKept: cfg.MaxProcesses,
	}, nil
}

// Add files what the line holds. Nothing of it is kept.
func (f *Feed) Add(l *Line) {
	f.scanner.Reset(l.Text, l.Ended)
	for {
		kind := f.scanner.Next()
		if kind == strace.KindNone {
			return
		}
		switch kind {
		case strace.KindRecord:
			f.record(l, &f.scanner.Record)
		case strace.KindAnchor:
			f.Assembler.NoteAnchor(l.Scope, f.scanner.Anchor, l.Now)
		case strace.KindReady:
			f.Assembler.NoteReady(l.Scope, f.scanner.Ready, l.Now)
		case strace.KindDrops:
			f.loss(l.Scope, f.scanner.Drops, l.Now)
		case strace.KindBad:
			f.Assembler.NoteBad(f.scanner.Outcome)
		}
	}
}

func (f *Feed) record(l *Line, r *strace.Record) {
	if s := l.From; s != nil && (!s.told || s.noted != r.PID) {
		s.noted, s.told = r.PID, true
		if s.OnProcess != nil {
			s.OnProcess(r.PID)
		}
		f.Assembler.NoteFile(l.Scope, r.PID, s.Clock, l.Now)
	}
	if l.Stamped != 0 {
		f.sample(l, r)
	}
	f.Assembler.Add(l.Scope, r, l.Now)
}

// sample pairs the stamp with the monotonic time at which the line was
// printed, or at least the span had ended.
func (f *Feed) sample(l *Line, r *strace.Record) {
	mono := r.Mono
	if mono == 0 {
		if r.Device {
			return
		}
		mono = r.End()
	}
	f.Assembler.NoteSample(l.Scope, r.PID, mono, l.Stamped, l.Now)
}

// loss passes on what a runtime lost since its last report.
func (f *Feed) loss(scope *strace.Scope, d strace.Drops, now int64) {
	f.Assembler.NoteDrops(scope, d, now)
	key := processKey{scope.Key, d.PID}
	before, known := f.losses[key]
	if d.Total < before.Total {
		before = strace.Drops{} // another process took the number
	}
	if !known && len(f.losses) >= f.maxKept {
		clear(f.losses) // a report then counts in full once more
	}
	f.losses[key] = d
	if d.Total == before.Total {
		return
	}
	f.onDrops(Loss{ScopeKey: scope.Key, PID: d.PID, Total: d.Total, Grown: strace.Drops{
		PID: d.PID, Total: d.Total - before.Total,
		QueueFull:      grown(d.QueueFull, before.QueueFull),
		ClaimExhausted: grown(d.ClaimExhausted, before.ClaimExhausted),
		OutputFailed:   grown(d.OutputFailed, before.OutputFailed),
		NotAdmitted:    grown(d.NotAdmitted, before.NotAdmitted),
	}})
}

func grown(now, before uint64) uint64 {
	if now < before {
		return 0
	}
	return now - before
}
