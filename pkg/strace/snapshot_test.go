// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// feeder drives one assembler from text and keeps what it emits.
type feeder struct {
	t     *testing.T
	asm   *Assembler
	scan  *Scanner
	spans []string
}

func newFeeder(t *testing.T) *feeder {
	t.Helper()
	f := &feeder{t: t}
	names := NewNames()
	cfg := DefaultConfig()
	cfg.Host, cfg.OnNone = "node-a", NoneMonotonic
	cfg.Emit = func(tr *Trace) {
		for i := range tr.Spans {
			s := &tr.Spans[i]
			f.spans = append(f.spans, fmt.Sprintf("%x %x<%x %s %d+%d %s %v %d/%d ev=%d inc=%v",
				tr.ID, s.ID, s.Parent, s.Text, s.Start, s.End-s.Start, s.Attrs, s.Stitch, s.ErrorNS, s.SlackNS, s.NumEvents, s.Incomplete))
		}
	}
	asm, err := NewAssembler(cfg, names)
	if err != nil {
		t.Fatal(err)
	}
	f.asm, f.scan = asm, NewScanner(names)
	return f
}

func (f *feeder) feed(lines []string) {
	const now = int64(1)
	for _, line := range lines {
		f.scan.Reset([]byte(line), true)
		s := f.asm.Scope("dir", now)
		for kind := f.scan.Next(); kind != KindNone; kind = f.scan.Next() {
			switch kind {
			case KindRecord:
				f.asm.Add(s, &f.scan.Record, now)
			case KindAnchor:
				f.asm.NoteAnchor(s, f.scan.Anchor, now)
			case KindReady:
				f.asm.NoteReady(s, f.scan.Ready, now)
			case KindDrops:
				f.asm.NoteDrops(s, f.scan.Drops, now)
			}
		}
	}
}

func (f *feeder) end() []string {
	f.asm.Flush(int64(time.Hour))
	slices.Sort(f.spans)
	return f.spans
}

// twoRankRun prints L3 runs over two workers in the runtime's order: run r's
// records come at 1000*r.
func twoRankRun(runs int) []string {
	lines := []string{
		"[mono_ns=5][T0x1][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=10 mono_ns=5 wall_ns=1000000000000000005",
		"[mono_ns=6][T0x1][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=11 mono_ns=6 wall_ns=1000000000000000016",
		"[chip_process pid=12 dev=1] ready",
		"[chip_process pid=11 dev=0] ready",
	}
	rec := func(pid, inv, depth int, name string, ts, dur int, attrs string) {
		lines = append(lines, fmt.Sprintf("[mono_ns=%d][T0x1][TIMING] emit_host_span: [STRACE] v=1 pid=%d tid=%d inv=%d hid=ab depth=%d name=%s ts=%d dur=%d %s",
			ts+dur, pid, pid, inv, depth, name, ts, dur, attrs))
	}
	for r := 1; r <= runs; r++ {
		at := 1000 * r
		id := fmt.Sprintf("run_id=%d", r)
		for w := range 2 {
			task := fmt.Sprintf("%s task_slot=%d group_index=0 worker_id=%d dispatch_id=%d", id, w, w, r)
			rec(10, r, 0, "node.dispatch", at+20+w, 5, task)
			rec(10, r, 0, "node.submit", at+10+w, 2, fmt.Sprintf("%s task_slot=%d group_index=0 group_size=1 worker_id=%d", id, w, w))
		}
		rec(10, r, 0, "node.graph_build", at, 15, id)
		for w := range 2 {
			rec(11+w, r, 1, "chip.run.bind", at+31, 10, "")
			rec(11+w, r, 1, "chip.run.runner_run", at+50, 100+w, "")
			rec(11+w, r, 2, "chip.run.runner_run.device_wall", 0, 80, "clk=dev")
			rec(11+w, r, 2, "chip.run.runner_run.aicpu_launch", at+55, 0, "")
			rec(11+w, r, 0, "chip.run", at+30, 200, "")
		}
		for w := range 2 {
			rec(10, r, 0, "node.complete", at+240+w, 3, fmt.Sprintf("%s task_slot=%d group_index=0 worker_id=%d dispatch_id=%d outcome=0", id, w, w, r))
		}
		rec(10, r, 0, "node.post_fence_retirement", at+250, 9, id)
	}
	return lines
}

// TestSnapshotAnywhere stops after every line, restores what was pending into
// a new assembler and reads on: the spans are those of one uninterrupted read.
func TestSnapshotAnywhere(t *testing.T) {
	lines := twoRankRun(3)
	whole := newFeeder(t)
	whole.feed(lines)
	want := whole.end()
	if len(want) != 3*(1+8+2*4) {
		t.Fatalf("%d spans, want 51", len(want))
	}
	for cut := range lines {
		first := newFeeder(t)
		first.feed(lines[:cut])
		snapshot := first.asm.AppendSnapshot(nil)
		second := newFeeder(t)
		if err := second.asm.Restore(snapshot, 1); err != nil {
			t.Fatalf("cut %d: %v", cut, err)
		}
		again := second.asm.AppendSnapshot(nil)
		if !bytes.Equal(again, snapshot) {
			t.Fatalf("cut %d: a restored snapshot differs from itself", cut)
		}
		second.feed(lines[cut:])
		got := append(slices.Clone(first.spans), second.end()...)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("cut %d after %q: %d spans, first difference:\n%s", cut, lines[max(cut-1, 0)], len(got), firstDifference(got, want))
		}
	}
}

// TestSnapshotDamaged flips and cuts a snapshot everywhere: an error or a
// restored state, never a panic.
func TestSnapshotDamaged(t *testing.T) {
	f := newFeeder(t)
	lines := twoRankRun(2)
	f.feed(lines[:len(lines)-3])
	snapshot := f.asm.AppendSnapshot(nil)
	for i := range snapshot {
		if err := newFeeder(t).asm.Restore(snapshot[:i], 1); err == nil {
			t.Fatalf("cut at %d of %d went unnoticed", i, len(snapshot))
		}
		flipped := slices.Clone(snapshot)
		flipped[i] ^= 0x55
		damaged := newFeeder(t)
		if damaged.asm.Restore(flipped, 1) == nil {
			damaged.end()
		}
	}
	other := slices.Clone(snapshot)
	other[0] = 99
	if err := newFeeder(t).asm.Restore(other, 1); err == nil || !strings.Contains(err.Error(), "version 99") {
		t.Fatalf("version: %v", err)
	}
}

func firstDifference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			return fmt.Sprintf("got  %s\nwant %s", got[min(i, len(got)-1)], want[min(i, len(want)-1)])
		}
	}
	return "none"
}
