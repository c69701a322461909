// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracepdata

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace"
)

// write assembles lines of one scope and returns what a Writer makes of them.
func write(t *testing.T, lines ...string) (*Writer, ptrace.Traces) {
	t.Helper()
	w := NewWriter(Options{ScopeName: "scope", ScopeVersion: "1.2", Resource: func(scope *strace.Scope, pid int32, attrs pcommon.Map) {
		attrs.PutStr("key", scope.Key)
		attrs.PutInt("pid", int64(pid))
	}})
	cfg := strace.DefaultConfig()
	cfg.OnNone = strace.NoneMonotonic
	cfg.Emit = func(tr *strace.Trace) { w.Append(tr) }
	names := strace.NewNames()
	asm, err := strace.NewAssembler(cfg, names)
	require.NoError(t, err)
	s := strace.NewScanner(names)
	for _, line := range lines {
		s.Reset([]byte(line), true)
		for kind := s.Next(); kind != strace.KindNone; kind = s.Next() {
			scope := asm.Scope("s", 1)
			switch kind {
			case strace.KindRecord:
				asm.Add(scope, &s.Record, 1)
			case strace.KindReady:
				asm.NoteReady(scope, s.Ready, 1)
			case strace.KindAnchor:
				asm.NoteAnchor(scope, s.Anchor, 1)
			default:
			}
		}
	}
	asm.Flush(2)
	return w, w.Take()
}

func rec(pid, inv, depth int, hid, name string, ts, dur int, attrs string) string {
	return fmt.Sprintf("[STRACE] v=1 pid=%d tid=%d inv=%d hid=%s depth=%d name=%s ts=%d dur=%d %s", pid, pid, inv, hid, depth, name, ts, dur, attrs)
}

func only(t *testing.T, traces ptrace.Traces) ptrace.Span {
	t.Helper()
	require.Equal(t, 1, traces.SpanCount())
	return traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
}

// TestAttributesOfARecord: numbers stay numbers only in their shortest form,
// text is decoded, clk is told once.
func TestAttributesOfARecord(t *testing.T) {
	_, traces := write(t, rec(7, 0, 0, "00ab", "ext.app.x%20y", 10, 5,
		"i=-3 big=9223372036854775807 over=9223372036854775808 zero=007 msg=a b%5Bc%5D d utf8=%E4%B8%AD bad=%FF%FE flag =odd"))
	s := only(t, traces)
	assert.Equal(t, "ext.app.x y", s.Name())
	assert.Equal(t, ptrace.SpanKindInternal, s.Kind())
	assert.Equal(t, map[string]any{
		"thread.id": int64(7), "strace.hid": "00ab", "strace.depth": int64(0), "strace.inv": int64(0),
		"strace.stage": "ext.app.x y", "strace.family": "external", "strace.producer": "app",
		"strace.clock": "host", "strace.clock.source": "none",
		"strace.attr.i": int64(-3), "strace.attr.big": int64(9223372036854775807), "strace.attr.over": "9223372036854775808",
		"strace.attr.zero": "007", "strace.attr.msg": "a b[c] d", "strace.attr.utf8": "中", "strace.attr.bad": "\uFFFD flag",
		"strace.attr.=odd": "",
	}, s.Attributes().AsRaw())
}

// TestVerbatim: what a generation without encoding printed is not decoded.
func TestVerbatim(t *testing.T) {
	_, traces := write(t, "[strace.h:129] "+rec(7, 1, 0, "ab", "simpler_run", 10, 5, "p=100%25 q=~"))
	attrs := only(t, traces).Attributes().AsRaw()
	assert.Equal(t, "100%25", attrs["strace.attr.p"])
	assert.NotContains(t, attrs, "strace.truncated", "a tilde there is no mark")
}

func TestTruncated(t *testing.T) {
	for _, tt := range []struct {
		name, attrs string
		want        any
	}{{"ext.app.x", "k=v~", true}, {"ext.app.xx~", "k=v", true}, {"ext.app.x", "k=v~ l=1", nil}} {
		_, traces := write(t, rec(7, 0, 0, "0", tt.name, 10, 5, tt.attrs))
		assert.Equal(t, tt.want, only(t, traces).Attributes().AsRaw()["strace.truncated"], "%+v", tt)
	}
}

// TestHugeInvocationNumber does not fit an integer attribute.
func TestHugeInvocationNumber(t *testing.T) {
	_, traces := write(t, "[STRACE] v=1 pid=7 tid=7 inv=18446744073709551615 hid=ab depth=0 name=chip.run ts=1 dur=2 ")
	v, _ := only(t, traces).Attributes().Get("strace.inv")
	assert.Equal(t, "18446744073709551615", v.Str())
}

// TestDeviceAndEvents: placement of the device block, its slack, and points.
func TestDeviceAndEvents(t *testing.T) {
	_, traces := write(t, "[CLOCK_ANCHOR] v=1 pid=7 mono_ns=1000 wall_ns=5000000000001000",
		rec(7, 1, 1, "ab", "chip.run.runner_run", 1010, 100, ""),
		rec(7, 1, 1, "ab", "chip.run.joined_launch", 1015, 0, "rc=0 who=a%20b"),
		rec(7, 1, 2, "ab", "chip.run.runner_run.device_wall", 0, 60, "clk=dev dev_id=4"),
		rec(7, 1, 0, "ab", "chip.run", 1000, 200, ""))
	assert.Equal(t, 3, traces.SpanCount())
	rs := traces.ResourceSpans().At(0)
	assert.Equal(t, map[string]any{
		"key": "s", "pid": int64(7), "process.pid": int64(7), "hw.id": "4", "hw.type": "npu",
	}, rs.Resource().Attributes().AsRaw())
	assert.Equal(t, "scope", rs.ScopeSpans().At(0).Scope().Name())
	assert.Equal(t, "1.2", rs.ScopeSpans().At(0).Scope().Version())
	for _, s := range rs.ScopeSpans().At(0).Spans().All() {
		attrs := s.Attributes().AsRaw()
		switch s.Name() {
		case "chip.run":
			assert.Equal(t, "none", attrs["strace.stitch"])
			require.Equal(t, 1, s.Events().Len())
			e := s.Events().At(0)
			assert.Equal(t, "joined_launch", e.Name())
			assert.Equal(t, int64(5000000000001015), int64(e.Timestamp()))
			assert.Equal(t, map[string]any{"strace.attr.rc": int64(0), "strace.attr.who": "a b"}, e.Attributes().AsRaw())
		case "chip.run.runner_run.device_wall":
			assert.Equal(t, int64(5000000000001010), int64(s.StartTimestamp()))
			assert.Equal(t, "device", attrs["strace.clock"])
			assert.Equal(t, int64(0), attrs["strace.device.ts_ns"])
			assert.InDelta(t, 40e-9, attrs["strace.device.slack"], 1e-15)
			assert.NotContains(t, attrs, "strace.device.fits")
		}
	}
}

func TestMisfit(t *testing.T) {
	_, traces := write(t, rec(7, 1, 2, "ab", "chip.run.runner_run.device_wall", 0, 60, "clk=dev"), rec(7, 1, 0, "ab", "chip.run", 1000, 200, ""))
	for _, s := range traces.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
		if s.Name() != "chip.run" {
			assert.Equal(t, false, s.Attributes().AsRaw()["strace.device.fits"])
		}
	}
}

// TestProcessesHaveResourcesOfTheirOwn, shared by their traces, until Take.
func TestProcessesHaveResourcesOfTheirOwn(t *testing.T) {
	w, traces := write(t, "[chip_process pid=8 dev=2] ready", rec(7, 1, 0, "ab", "chip.prewarm.build", 10, 5, ""),
		rec(8, 1, 0, "ab", "chip.prewarm.build", 10, 5, ""), rec(7, 2, 0, "ab", "chip.prewarm.build", 20, 5, ""))
	assert.Equal(t, 2, traces.ResourceSpans().Len())
	assert.Equal(t, 3, traces.SpanCount())
	assert.Zero(t, w.Len())
	assert.Zero(t, w.Take().SpanCount())
}

// TestCachesAreBounded: hostile logs have endless keys.
func TestCachesAreBounded(t *testing.T) {
	var lines []string
	for i := range maxCached + 10 {
		lines = append(lines, rec(7, 0, 0, fmt.Sprintf("%x", i+1), "ext.app.x", 10+i, 5, fmt.Sprintf("k%d=1", i)))
	}
	w, traces := write(t, lines...)
	assert.Equal(t, maxCached+10, traces.SpanCount())
	assert.Len(t, w.attrKeys, maxCached)
	assert.Len(t, w.hids, maxCached)
}

func BenchmarkAppend(b *testing.B) {
	w := NewWriter(Options{ScopeName: "s"})
	tr := &strace.Trace{Processes: []strace.Process{{Scope: &strace.Scope{Key: "s"}, PID: 7}}}
	name := strace.NewNames().Intern([]byte("chip.run.bind"), false)
	for i := range 16 {
		tr.Spans = append(tr.Spans, strace.Span{Name: name, Text: name.Text, TS: int64(i), Attrs: []byte("run_id=5 dispatch_id=7"), HID: 0xab, HIDDigits: 2, Fits: true})
	}
	b.ReportAllocs()
	for b.Loop() {
		if w.Append(tr); w.Len() >= 2048 {
			w.Take()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/span")
}
