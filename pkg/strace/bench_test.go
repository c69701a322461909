// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// tmrInvocation is what one onboard invocation of the newest stable
// generation prints: 16 records. Field widths are those of real logs.
func tmrInvocation(pid, inv int, at int64, identity string) string {
	var b strings.Builder
	rec := func(depth int, name string, ts, dur int64, attrs string) {
		fmt.Fprintf(&b, "[mono_ns=%d][T0x7f7f1fe1f440][TIMING] emit_host_span: [STRACE] v=1 pid=%d tid=%d inv=%d hid=8f3a11c07be2d945 depth=%d name=chip.run%s ts=%d dur=%d %s\n",
			at+dur, pid, pid, inv, depth, name, ts, dur, attrs)
	}
	rec(2, ".bind.args", at+130, 3096, "")
	rec(2, ".bind.prebuilt", at+5771, 1573, "")
	rec(1, ".bind", at+100, 9738, "")
	rec(1, ".runner_run", at+12_363, 36_010_079, "")
	rec(1, ".validate", at+36_028_704, 871, "")
	rec(2, ".runner_run.device_wall", 0, 35_900_000, "clk=dev")
	for i, phase := range []string{"preamble", "graph_build", "config_validate", "arena_wire", "sm_reset", "post_orch", "orch", "sched"} {
		rec(3, ".runner_run.device_wall."+phase, int64(i)*1240, 1200+int64(i)*100_000, "clk=dev")
	}
	rec(1, ".claim_release", at+36_030_000, 400, "")
	rec(0, "", at, 36_046_878, identity)
	return b.String()
}

// lines cuts a log into lines, ready to be scanned again and again.
func lines(log string) [][]byte {
	return bytes.Split(bytes.TrimSuffix([]byte(log), []byte("\n")), []byte("\n"))
}

// benchLog is a log of invocations 36 ms apart, long enough that none is read
// again while the last round of it is still held.
func benchLog(invocations int) string {
	var b strings.Builder
	b.WriteString(anchorLine(14_131, 680_697_077_335, wallBase))
	for i := range invocations {
		b.WriteString(tmrInvocation(14_131, i+1, 680_697_077_335+int64(i)*40*ms, "run_id=0 dispatch_id=0 slot_id=0 generation=17 run_epoch=17"))
	}
	return b.String()
}

// l3Log is a log of runs with one dispatch to each of eight chips: the
// parent's records and, between them, the chips'.
func l3Log(runs int) string {
	var b strings.Builder
	for w := range 8 {
		b.WriteString(anchorLine(14_001+w, 680_697_000_000, wallBase) + fmt.Sprintf("[chip_process pid=%d dev=%d] ready\n", 14_001+w, w))
	}
	b.WriteString(anchorLine(14_000, 680_697_000_000, wallBase))
	for r := 1; r <= runs; r++ {
		at := 680_697_077_335 + int64(r)*40*ms
		node := func(name string, ts, dur int64, attrs string) {
			fmt.Fprintf(&b, "[mono_ns=%d][T0x7f101fc36b80][TIMING] emit_host_span: [STRACE] v=1 pid=14000 tid=14000 inv=%d hid=61bf46a1bfeef7d3 depth=0 name=node.%s ts=%d dur=%d run_id=%d %s\n",
				ts+dur, r, name, ts, dur, r, attrs)
		}
		task := func(w int) string {
			return fmt.Sprintf("task_slot=%d group_index=0 worker_id=%d dispatch_id=%d endpoint_kind=local_mailbox prepare_only=0 role=worker", w, w, r)
		}
		for w := range 8 {
			node("submit", at+int64(w)*100, 90, fmt.Sprintf("task_slot=%d group_index=0 group_size=1 worker_id=%d role=facade", w, w))
		}
		node("graph_build", at-500, 2000, "role=facade")
		for w := range 8 {
			node("frame_submit", at+2010+int64(w)*100, 40, task(w))
			node("dispatch", at+2000+int64(w)*100, 90, task(w)+" slot_id=0 generation=1")
		}
		for w := range 8 {
			b.WriteString(tmrInvocation(14_001+w, r, at+5000+int64(w), fmt.Sprintf("run_id=%d dispatch_id=%d slot_id=0 generation=1 run_epoch=%d", r, r, r)))
		}
		for w := range 8 {
			node("complete", at+36_100_000+int64(w)*100, 50, task(w)+" outcome=0")
		}
		node("post_fence_retirement", at+36_200_000, 900, "slot_id=0 generation=1 role=facade")
	}
	return b.String()
}

// bench reads the log's lines over and over, one line per iteration, and ticks
// once per round as a poll would.
func bench(b *testing.B, log string, assemble bool) {
	text := lines(log)
	names := NewNames()
	scan := NewScanner(names)
	cfg := DefaultConfig()
	cfg.Host = testHost
	spans := 0
	cfg.Emit = func(t *Trace) { spans += len(t.Spans) }
	asm, err := NewAssembler(cfg, names)
	if err != nil {
		b.Fatal(err)
	}
	now := wallBase
	round := func() {
		now += int64(cfg.Linger)
		asm.EndPoll(now)
		now += int64(cfg.MaxOpen) + 1 // what is remembered of earlier rounds is forgotten
		asm.EndPoll(now)
	}
	one := func(line []byte) {
		scan.Reset(line, true)
		for k := scan.Next(); k != KindNone; k = scan.Next() {
			if !assemble {
				continue
			}
			s := asm.Scope("dir", now)
			switch k {
			case KindRecord:
				asm.Add(s, &scan.Record, now)
			case KindAnchor:
				asm.NoteAnchor(s, scan.Anchor, now)
			case KindReady:
				asm.NoteReady(s, scan.Ready, now)
			}
		}
	}
	for range 3 { // warm
		for _, line := range text {
			one(line)
		}
		round()
	}
	b.SetBytes(int64(len(log) / len(text)))
	b.ReportAllocs()
	spans = 0
	i := 0
	for b.Loop() {
		one(text[i])
		if i++; i == len(text) {
			i = 0
			round()
		}
	}
	if assemble {
		b.ReportMetric(float64(spans)/float64(b.N), "spans/op")
	}
}

// BenchmarkScan is the scanner alone, per record line.
func BenchmarkScan(b *testing.B) { bench(b, benchLog(100), false) }

// BenchmarkInvocations scans, assembles, builds trees and ids, per record.
func BenchmarkInvocations(b *testing.B) { bench(b, benchLog(500), true) }

// BenchmarkRuns does so for L3 runs with eight chips, stitched, per record.
func BenchmarkRuns(b *testing.B) { bench(b, l3Log(60), true) }

// BenchmarkWallPrefix does so for the oldest generation, whose lines are the
// clock.
func BenchmarkWallPrefix(b *testing.B) {
	log := strings.ReplaceAll(benchLog(500), "[T0x7f7f1fe1f440][TIMING] emit_host_span: ", "[T0x7f7f1fe1f440][INFO_V9] ~StraceScope: [strace.h:129] ")
	b.Run("anchored", func(b *testing.B) { bench(b, log, true) })
}

// BenchmarkPoorLine is a line of foreign text, some of it in brackets.
func BenchmarkPoorLine(b *testing.B) {
	line := []byte("2026-08-11 10:00:00.000 INFO [engine.py:512] [rank 3] step=17 tokens=[1, 2, 3] latency=37.2ms " + strings.Repeat("lorem ipsum ", 8))
	scan := NewScanner(NewNames())
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		scan.Reset(line, true)
		drain(scan)
	}
}
