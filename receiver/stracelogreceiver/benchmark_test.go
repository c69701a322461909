// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/metadata"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/split"
)

// benchSpan is one line of an onboard invocation; offsets are from its start.
type benchSpan struct {
	depth   int
	name    string
	ts, dur int64
	attrs   string
	device  bool
	parent  int
}

// onboard is what one invocation prints, in order, its root last.
var onboard = []benchSpan{
	{2, "chip.run.bind.args", 10, 20, "", false, 2},
	{2, "chip.run.bind.prebuilt", 40, 200, "", false, 2},
	{1, "chip.run.bind", 5, 300, "", false, 15},
	{1, "chip.run.runner_run", 310, 9000, "", false, 15},
	{1, "chip.run.validate", 9320, 50, "", false, 15},
	{2, "chip.run.runner_run.device_wall", 0, 8000, "clk=dev", true, 3},
	{3, "chip.run.runner_run.device_wall.preamble", 0, 100, "clk=dev", true, 5},
	{3, "chip.run.runner_run.device_wall.so_load", 120, 100, "clk=dev", true, 5},
	{3, "chip.run.runner_run.device_wall.graph_build", 240, 7000, "clk=dev", true, 5},
	{3, "chip.run.runner_run.device_wall.config_validate", 260, 20, "clk=dev", true, 5},
	{3, "chip.run.runner_run.device_wall.arena_wire", 300, 20, "clk=dev", true, 5},
	{3, "chip.run.runner_run.device_wall.sm_reset", 340, 100, "clk=dev", true, 5},
	{3, "chip.run.runner_run.device_wall.orch", 460, 4000, "clk=dev", true, 5},
	{3, "chip.run.runner_run.device_wall.sched", 480, 6000, "clk=dev", true, 5},
	{1, "chip.run.claim_release", 9400, 10, "", false, 15},
	{0, "chip.run", 0, 9500, "run_id=%[1]d dispatch_id=%[1]d slot_id=0 generation=%[1]d run_epoch=%[1]d", false, -1},
}

// denseLog is a log of records only.
func denseLog(invocations int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "[mono_ns=1][T0x7f8ddc72e440][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=102 mono_ns=1 wall_ns=%d\n", anchorWall)
	for inv := 1; inv <= invocations; inv++ {
		start := int64(inv) * 10_000
		for _, s := range onboard {
			attrs := s.attrs
			if s.depth == 0 {
				attrs = fmt.Sprintf(attrs, inv)
			}
			ts := s.ts
			if !s.device {
				ts += start
			}
			fmt.Fprintf(&b, "[mono_ns=%d][T0x7f8ddc72e440][TIMING] emit_host_span: [STRACE] v=1 pid=102 tid=102 inv=%d hid=c23effff836f8e36 depth=%d name=%s ts=%d dur=%d %s\n",
				start+9600, inv, s.depth, s.name, ts, s.dur, attrs)
		}
	}
	return b.Bytes()
}

// sparseLog has 99 lines of a server's log between two records.
func sparseLog(size int) []byte {
	dense := bytes.SplitAfter(denseLog(size/(100*200*len(onboard))+1), []byte("\n"))
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		if i%100 == 0 && len(dense[0]) > 0 {
			b.Write(dense[0])
			dense = dense[1:]
			continue
		}
		fmt.Fprintf(&b, "[mono_ns=%d][T0x7f8ddc72e440][INFO] scheduler: step %d: batch of 16 sequences, 12 decoding and 4 waiting; cache blocks used 1234 of 65536; 127.0.0.1:48214 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK\n", i*1000, i)
	}
	return b.Bytes()
}

// blocks cuts text as fileconsumer does, 100 tokens a call.
func blocks(text []byte, call func(tokens [][]byte, offsets []int64)) {
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(make([]byte, 0, 2*split.MaxLine), 1<<20)
	at := int64(0)
	splitFunc := split.Func(container.Auto)
	s.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		n, token, err := splitFunc(data, atEOF)
		at += int64(n)
		return n, token, err
	})
	var tokens [][]byte
	offsets := []int64{0}
	for s.Scan() {
		tokens, offsets = append(tokens, bytes.Clone(s.Bytes())), append(offsets, at)
		if len(tokens) == 100 {
			call(tokens, offsets)
			tokens, offsets = tokens[:0], append(offsets[:0], at)
		}
	}
	if len(tokens) > 0 {
		call(tokens, offsets)
	}
}

// counter counts what it gets.
type counter struct{ spans atomic.Int64 }

func (*counter) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (c *counter) ConsumeTraces(_ context.Context, t ptrace.Traces) error {
	c.spans.Add(int64(t.SpanCount()))
	return nil
}

func benchReader(b *testing.B, next consumer.Traces) *reader {
	b.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.Include, cfg.HostName = []string{"x"}, "n1"
	r, err := newReader(b.Context(), receivertest.NewNopSettings(metadata.Type), cfg, next)
	require.NoError(b, err)
	r.grace, r.patience = 0, 0 // there is one file
	b.Cleanup(func() {
		r.close(context.Background()) //nolint:usetesting // the benchmark's own has ended at cleanup
	})
	return r
}

// BenchmarkDense reads a log of records only into traces, beside building the
// same traces from values that are known.
func BenchmarkDense(b *testing.B) {
	const invocations = 2000
	text := denseLog(invocations)
	spans := float64(invocations * len(onboard))
	b.Run("receiver", func(b *testing.B) {
		next := &counter{}
		r := benchReader(b, next)
		now := time.Unix(0, anchorWall)
		n := 0
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			n++
			now = now.Add(time.Minute) // all of the last round is due
			r.now = func() time.Time { return now }
			path := map[string]any{"log.file.path": fmt.Sprintf("/x/%d/host.102.log", n)}
			blocks(text, func(tokens [][]byte, offsets []int64) {
				_ = r.consume(b.Context(), tokens, path, 0, offsets)
			})
			for range 3 {
				now = now.Add(time.Second)
				_, _, err := r.endPoll(false)
				require.NoError(b, err)
			}
		}
		require.Equal(b, int64(float64(n)*spans), next.spans.Load())
		perSpan(b, spans)
	})
	b.Run("by_hand", func(b *testing.B) {
		next := &counter{}
		b.ReportAllocs()
		for b.Loop() {
			for from := 1; from <= invocations; from += batchSpans / len(onboard) {
				_ = next.ConsumeTraces(b.Context(), byHand(from, min(invocations, from+batchSpans/len(onboard)-1)))
			}
		}
		perSpan(b, spans)
	})
}

func perSpan(b *testing.B, spans float64) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/spans, "ns/span")
	b.ReportMetric(float64(b.N)*spans/b.Elapsed().Seconds(), "spans/s")
}

// byHand builds what the receiver makes of invocations first to last.
func byHand(first, last int) ptrace.Traces {
	t := ptrace.NewTraces()
	rs := t.ResourceSpans().AppendEmpty()
	attrs := rs.Resource().Attributes()
	attrs.EnsureCapacity(12)
	attrs.PutStr("service.name", "simpler")
	attrs.PutStr("host.name", "n1")
	attrs.PutInt("process.pid", 102)
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName(metadata.ScopeName)
	for inv := first; inv <= last; inv++ {
		for i, s := range onboard {
			span := ss.Spans().AppendEmpty()
			span.SetTraceID(pcommon.TraceID{byte(inv), byte(inv >> 8), 1})
			span.SetSpanID(pcommon.SpanID{byte(inv), byte(inv >> 8), byte(i + 1)})
			span.SetParentSpanID(pcommon.SpanID{byte(inv), byte(inv >> 8), byte(s.parent + 1)})
			span.SetName(s.name)
			span.SetKind(ptrace.SpanKindInternal)
			span.SetStartTimestamp(pcommon.Timestamp(anchorWall + int64(inv)*10_000 + s.ts))
			span.SetEndTimestamp(pcommon.Timestamp(anchorWall + int64(inv)*10_000 + s.ts + s.dur))
			a := span.Attributes()
			a.EnsureCapacity(16)
			a.PutInt("thread.id", 102)
			a.PutStr("strace.hid", "c23effff836f8e36")
			a.PutInt("strace.depth", int64(s.depth))
			a.PutInt("strace.inv", int64(inv))
			a.PutStr("strace.stage", s.name[5:])
			a.PutStr("strace.family", "chip")
			if s.device {
				a.PutStr("strace.clock", "device")
				a.PutInt("strace.device.ts_ns", s.ts)
				a.PutDouble("strace.device.slack", 1e-6)
			} else {
				a.PutStr("strace.clock", "host")
			}
			a.PutStr("strace.clock.source", "anchor")
			a.PutDouble("strace.clock.error", 1e-6)
			if s.depth == 0 {
				a.PutStr("strace.stitch", "none")
				for _, key := range [...]string{"strace.attr.run_id", "strace.attr.dispatch_id", "strace.attr.generation", "strace.attr.run_epoch"} {
					a.PutInt(key, int64(inv))
				}
				a.PutInt("strace.attr.slot_id", 0)
			}
		}
	}
	return t
}

// BenchmarkSparse reads a server's log with one record in a hundred lines.
func BenchmarkSparse(b *testing.B) {
	text := sparseLog(64 << 20)
	for _, format := range []string{"raw", "cri"} {
		b.Run(format, func(b *testing.B) {
			text := text
			if format == "cri" {
				text = dressAll(text)
			}
			next := &counter{}
			r := benchReader(b, next)
			now := time.Unix(0, anchorWall)
			n := 0
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				n++
				now = now.Add(time.Minute)
				r.now = func() time.Time { return now }
				path := map[string]any{"log.file.path": fmt.Sprintf("/x/%d/host.102.log", n)}
				blocks(text, func(tokens [][]byte, offsets []int64) {
					_ = r.consume(b.Context(), tokens, path, 0, offsets)
				})
				_, _, err := r.endPoll(false)
				require.NoError(b, err)
			}
		})
	}
}

func dressAll(text []byte) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		b.WriteString("2026-01-02T03:04:05.123456789Z stderr F ")
		b.Write(line)
	}
	return b.Bytes()
}

// BenchmarkFile reads files from disk through the whole receiver.
func BenchmarkFile(b *testing.B) {
	for _, c := range []struct {
		name string
		text []byte
	}{{"dense", denseLog(20_000)}, {"sparse", sparseLog(256 << 20)}} {
		b.Run(c.name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "host.102.log")
			require.NoError(b, os.WriteFile(path, c.text, 0o600))
			records := bytes.Count(c.text, []byte("[STRACE]"))
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				readAll(b, path, records)
			}
			b.ReportMetric(float64(b.N)*float64(records)/b.Elapsed().Seconds(), "spans/s")
		})
	}
}

func readAll(b *testing.B, path string, records int) {
	b.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.Include, cfg.HostName, cfg.StartAt = []string{path}, "n1", "beginning"
	cfg.PollInterval, cfg.Linger, cfg.StitchWait = time.Millisecond, time.Millisecond, time.Millisecond
	next := &counter{}
	recv := newStracelogReceiver(receivertest.NewNopSettings(metadata.Type), cfg, next)
	require.NoError(b, recv.Start(b.Context(), componenttest.NewNopHost()))
	for next.spans.Load() < int64(records)-int64(len(onboard)) {
		<-time.After(100 * time.Microsecond)
	}
	require.NoError(b, recv.Shutdown(b.Context()))
}

// BenchmarkSnapshot writes what is pending, with a good deal of it.
func BenchmarkSnapshot(b *testing.B) {
	r := benchReader(b, &counter{})
	text := denseLog(1000)
	open := bytes.ReplaceAll(text, []byte("depth=0 name=chip.run "), []byte("depth=1 name=chip.run.tail "))
	blocks(open, func(tokens [][]byte, offsets []int64) {
		_ = r.consume(b.Context(), tokens, map[string]any{"log.file.path": "/x/host.102.log"}, 0, offsets)
	})
	size := 0
	b.ReportAllocs()
	for b.Loop() {
		s, err := r.snapshot()
		require.NoError(b, err)
		size = len(s)
	}
	b.SetBytes(int64(size))
}
