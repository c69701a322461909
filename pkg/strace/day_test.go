// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDay reads 24 hours of a node's logs on a fake clock: a run per second on
// two chips, workers that die and are replaced by others, losses, singles,
// clock samples. What is held at the end is what was held after an hour.
func TestDay(t *testing.T) {
	hours := 24
	if testing.Short() || underRace {
		hours = 4
	}
	var traces, spans int
	var emitted [][2]int // per hour
	cfg := DefaultConfig()
	cfg.Host = testHost
	cfg.MaxProcesses = 64
	cfg.Emit = func(tr *Trace) { traces++; spans += len(tr.Spans) }
	names := NewNames()
	asm, err := NewAssembler(cfg, names)
	require.NoError(t, err)
	d := &day{asm: asm, scan: NewScanner(names), pid: 1000}

	var held, first Stats
	var heap uint64
	for hour := range hours {
		held = Stats{}
		traces, spans = 0, 0
		for range 3600 {
			d.second(&held)
		}
		emitted = append(emitted, [2]int{traces, spans})
		if hour == 0 {
			first, heap = held, heapInUse()
		}
	}
	require.Equal(t, first, held, "held at most, in the first and in the last hour")
	for hour := 2; hour < hours; hour++ {
		require.Equal(t, emitted[1], emitted[hour], "traces and spans of hour %d", hour)
	}
	require.Less(t, heapInUse(), heap+heap/10+200_000, "heap")
	asm.Flush(wallBase + d.at)
	stats := asm.Stats()
	require.Zero(t, stats.ClockJumps)
	require.Zero(t, stats.Unplaced)
	require.Equal(t, uint64(2*3600*hours), stats.Stitched[StitchTime]+stats.Traces[TraceIncomplete])
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// day writes and reads the node's log second by second.
type day struct {
	asm  *Assembler
	scan *Scanner
	at   int64 // monotonic
	n    int
	pid  int
	inv  int
	run  int
}

func (d *day) read(line string) {
	now := wallBase + d.at
	d.scan.Reset([]byte(line[:len(line)-1]), true)
	s := d.asm.Scope("dir", now)
	for k := d.scan.Next(); k != KindNone; k = d.scan.Next() {
		switch k {
		case KindRecord:
			d.asm.NoteSample(s, d.scan.Record.PID, d.scan.Record.Mono, d.scan.Record.Mono+wallBase+int64(d.n%7)*1000, now)
			d.asm.Add(s, &d.scan.Record, now)
		case KindAnchor:
			d.asm.NoteAnchor(s, d.scan.Anchor, now)
		case KindReady:
			d.asm.NoteReady(s, d.scan.Ready, now)
		case KindDrops:
			d.asm.NoteDrops(s, d.scan.Drops, now)
		}
	}
}

func (d *day) second(held *Stats) {
	if d.n%600 == 0 { // the chips are replaced
		d.pid += 2
		d.inv = 0
		d.read(anchorLine(10, d.at, wallBase))
		for w := range 2 {
			d.read(anchorLine(d.pid+w, d.at, wallBase))
			d.read(fmt.Sprintf("[chip_process pid=%d dev=%d] ready\n", d.pid+w, w))
		}
	}
	d.run++
	d.inv++
	at := d.at
	id := fmt.Sprintf("run_id=%d ", d.run)
	for w := range 2 {
		d.read(mark(10, d.run, 0, "node.submit", at+int64(w), 2, id+fmt.Sprintf("task_slot=%d group_size=1 worker_id=%d", w, w)))
	}
	d.read(mark(10, d.run, 0, "node.graph_build", at, 10, id))
	for w := range 2 {
		d.read(mark(10, d.run, 0, "node.dispatch", at+10, 5, id+task(w, d.run)))
	}
	for w := range 2 {
		pid := d.pid + w
		d.read(mark(pid, d.inv, 1, "chip.run.bind", at+30, 10, ""))
		d.read(mark(pid, d.inv, 1, "chip.run.runner_run", at+50, 500*ms, ""))
		d.read(mark(pid, d.inv, 2, "chip.run.runner_run.device_wall", 0, 400*ms, "clk=dev"))
		if d.n%600 != 599 || w == 0 { // the other one is killed
			d.read(mark(pid, d.inv, 0, "chip.run", at+20, 600*ms, ""))
		}
	}
	for w := range 2 {
		d.read(mark(10, d.run, 0, "node.complete", at+700*ms, 5, id+task(w, d.run)))
	}
	d.read(mark(10, d.run, 0, "node.post_fence_retirement", at+701*ms, 5, id))
	if d.n%60 == 0 {
		d.read(mark(10, 0, 0, "ext.app.step", at+800*ms, 5, "layer=1"))
		d.read(fmt.Sprintf("[mono_ns=%d][T0xabc][ERROR] host_log_drops: [HOSTLOG_DROPS] v=1 pid=10 new=1 total=5 queue_full=5 claim_exhausted=0 output_failed=0 not_admitted=0\n", at+801*ms))
	}
	for range 4 {
		d.at += 250 * ms
		d.asm.SetHostClock(HostClock{Mono: d.at, Offset: wallBase, Valid: true})
		d.asm.EndPoll(wallBase + d.at)
	}
	s := d.asm.Stats()
	held.Open, held.Waiting, held.OpenRuns = max(held.Open, s.Open), max(held.Waiting, s.Waiting), max(held.OpenRuns, s.OpenRuns)
	held.HeldBytes, held.Scopes = max(held.HeldBytes, s.HeldBytes), max(held.Scopes, s.Scopes)
	d.n++
}

// TestIdleTicks: an hour with nothing to read sends on what there is, once.
func TestIdleTicks(t *testing.T) {
	p := newPlayer(t)
	p.text("dir", ready2+oneRun())
	for range 4 * 3600 {
		p.now += int64(250 * time.Millisecond)
		p.asm.EndPoll(p.now)
	}
	p.accounted()
	require.Len(t, p.byName("node.run"), 1)
}
