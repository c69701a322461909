// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package logfmt

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func sampleSpan(generation int, site Site) *Record {
	root := RootName(generation)
	return &Record{
		Site: site, Mono: 749956410272, Wall: 1795989988255626999, Thread: 0x7f89a4436440,
		PID: 14857, TID: 14858, Inv: 1, HID: 0x8f3a11c07be2d945, Depth: 2,
		Name: root + ".bind.args", TS: 749156436185, Dur: 3076,
	}
}

// The shapes of every generation, written out by hand.
func TestEveryGeneration(t *testing.T) {
	body := " [STRACE] v=1 pid=14857 tid=14858 inv=1 hid=8f3a11c07be2d945 depth=2 name="
	tail := ".bind.args ts=749156436185 dur=3076 \n"
	wall := "[2026-11-29 22:06:28.255626][T0x7f89a4436440]"
	mono := "[mono_ns=749956410272][T0x7f89a4436440][TIMING] emit_host_span:"
	for generation, want := range map[int][3]string{
		1: {wall + "[INFO_V9] ~StraceScope: [strace.h:129]", wall + "[INFO_V9] emit_span_at: [strace.h:182]", wall + "[INFO_V9] emit_host_span:"},
		2: {wall + "[INFO_V9] ~StraceScope: [strace.h:129]", wall + "[INFO_V9] emit_span_at: [strace.h:182]", wall + "[INFO_V9] emit_host_span:"},
		3: {wall + "[TIMING] ~StraceScope: [strace.h:131]", wall + "[TIMING] emit_span_at: [strace.h:184]", wall + "[TIMING] emit_host_span:"},
		4: {wall + "[TIMING] ~StraceScope: [strace.h:134]", wall + "[TIMING] emit_span_at: [strace.h:223]", wall + "[TIMING] emit_host_span:"},
		5: {wall + "[TIMING] ~StraceScope: [strace.h:134]", wall + "[TIMING] emit_span_at: [strace.h:223]", wall + "[TIMING] emit_host_span:"},
		6: {mono, mono, mono}, 7: {mono, mono, mono}, 8: {mono, mono, mono}, 9: {mono, mono, mono},
	} {
		root := [...]string{1: "run_prepared", 2: "simpler_run", 3: "simpler_run", 4: "simpler_run", 5: "simpler_run", 6: "simpler_run", 7: "chip.run", 8: "chip.run", 9: "chip.run"}[generation]
		f, err := New(generation, Options{})
		require.NoError(t, err)
		assert.Equal(t, generation, f.Generation())
		for i, site := range []Site{SiteScope, SiteSpanAt, SiteHostSpan} {
			assert.Equal(t, want[i]+body+root+tail, string(f.Append(nil, sampleSpan(generation, site))), "generation %d site %d", generation, site)
		}
	}
}

func TestBare(t *testing.T) {
	f, err := New(9, Options{Bare: true})
	require.NoError(t, err)
	assert.Equal(t, "[STRACE] v=1 pid=14857 tid=14858 inv=1 hid=8f3a11c07be2d945 depth=2 name=chip.run.bind.args ts=749156436185 dur=3076 \n",
		string(f.Append(nil, sampleSpan(9, SiteScope))))
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	f, err := New(9, Options{})
	require.NoError(t, err)
	long := strings.Repeat("x", 600)
	out := f.Append([]byte(long), sampleSpan(9, SiteScope))
	assert.True(t, strings.HasPrefix(string(out), long+"[mono_ns="))
	assert.True(t, strings.HasSuffix(string(out), "dur=3076 \n"))
}

func TestOtherLines(t *testing.T) {
	f, err := New(8, Options{})
	require.NoError(t, err)
	for want, r := range map[string]Record{
		"[mono_ns=7][T0xab][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=42 mono_ns=5 wall_ns=1795991309125620515\n": {
			Kind: KindAnchor, Mono: 7, Thread: 0xab, PID: 42, TS: 5, AnchorWall: 1795991309125620515,
		},
		"[chip_process pid=42 dev=3] ready\n": {Kind: KindReady, Mono: 7, PID: 42, Device: 3},
		"[mono_ns=7][T0xab][ERROR] host_log_drops: [HOSTLOG_DROPS] v=1 pid=42 new=3 total=5 queue_full=5 claim_exhausted=0 output_failed=0 not_admitted=0\n": {
			Kind: KindDrops, Mono: 7, Thread: 0xab, PID: 42, DropsNew: 3, DropsTotal: 5,
		},
		"[mono_ns=7][T0xab][WARN] specials: [head.cpp:66] multi\n": {
			Kind: KindLog, Mono: 7, Thread: 0xab, Level: "WARN", Func: "specials", Text: "[head.cpp:66] multi",
		},
		"anything at all\n": {Kind: KindRaw, Text: "anything at all"},
	} {
		assert.Equal(t, want, string(f.Append(nil, &r)))
	}
}

func TestExtremes(t *testing.T) {
	r := &Record{
		Kind: KindSpan, Site: SiteHostSpan, Mono: math.MaxInt64, Thread: math.MaxUint64, PID: math.MaxInt32, TID: math.MinInt64,
		Inv: math.MaxUint64, HID: math.MaxUint64, Depth: math.MinInt32, TS: math.MinInt64, Dur: math.MaxInt64,
	}
	f, err := New(8, Options{})
	require.NoError(t, err)
	assert.Equal(t, "[mono_ns=9223372036854775807][T0xffffffffffffffff][TIMING] emit_host_span: [STRACE] v=1 pid=2147483647 tid=-9223372036854775808 "+
		"inv=18446744073709551615 hid=ffffffffffffffff depth=-2147483648 name= ts=-9223372036854775808 dur=9223372036854775807 \n",
		string(f.Append(nil, r)))
	// Older counters had 32 bits.
	f, err = New(4, Options{})
	require.NoError(t, err)
	r.Inv, r.Site = 1<<32+7, SiteScope
	assert.Contains(t, string(f.Append(nil, r)), " inv=7 ")
}

func encode(t *testing.T, generation int, site Site, name string, attrs ...Attr) (encodedName, encodedAttrs string) {
	t.Helper()
	f, err := New(generation, Options{})
	require.NoError(t, err)
	line := string(f.Append(nil, &Record{Kind: KindSpan, Site: site, Name: name, TS: 1, Dur: 2, Attrs: attrs}))
	_, rest, ok := strings.Cut(line, " name=")
	require.True(t, ok)
	encodedName, rest, ok = strings.Cut(rest, " ts=1 dur=2 ")
	require.True(t, ok)
	return encodedName, strings.TrimSuffix(rest, "\n")
}

func TestEncoding(t *testing.T) {
	name, attrs := encode(t, 8, SiteScope, "ext.app.with space[x]=%\tq\n", Str("msg", "a b[c]d%\te\nf"), Str("utf8", "中"))
	assert.Equal(t, "ext.app.with%20space%5Bx%5D%3D%25%09q%0A", name)
	assert.Equal(t, "msg=a b%5Bc%5Dd%25%09e%0Af utf8=%E4%B8%AD", attrs)

	name, attrs = encode(t, 4, SiteScope, "a%b", Str("k", "c%d"))
	assert.Equal(t, "a%b", name, "verbatim before generation 6")
	assert.Equal(t, "k=c%d", attrs)
	name, _ = encode(t, 5, SiteHostSpan, "a%b")
	assert.Equal(t, "a%25b", name, "the node family was encoded first")
}

func TestCaps(t *testing.T) {
	for _, tc := range []struct{ name, want string }{
		{strings.Repeat("a", 64), strings.Repeat("a", 64)},
		{strings.Repeat("a", 65), strings.Repeat("a", 63) + "~"},
		// No room for an escape: the mark takes the free place.
		{strings.Repeat("a", 63) + "%", strings.Repeat("a", 63) + "~"},
		{strings.Repeat("a", 62) + "%", strings.Repeat("a", 62) + "~"},
		// An escape fills the field; it goes as a whole.
		{strings.Repeat("a", 61) + "%", strings.Repeat("a", 61) + "%25"},
		{strings.Repeat("a", 61) + "%b", strings.Repeat("a", 61) + "~"},
	} {
		got, _ := encode(t, 8, SiteScope, tc.name)
		assert.Equal(t, tc.want, got)
		assert.LessOrEqual(t, len(got), 64)
	}
	_, attrs := encode(t, 8, SiteScope, "x", Str("k", strings.Repeat("y", 190)))
	assert.Equal(t, "k="+strings.Repeat("y", 190), attrs)
	_, attrs = encode(t, 8, SiteScope, "x", Str("k", strings.Repeat("y", 191)))
	assert.Equal(t, "k="+strings.Repeat("y", 189)+"~", attrs)
	name, _ := encode(t, 3, SiteScope, strings.Repeat("a", 100))
	assert.Len(t, name, 100, "no cap before generation 5")
}

func TestWallPrefixZone(t *testing.T) {
	f, err := New(1, Options{Location: time.FixedZone("x", 8*3600)})
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(f.Append(nil, sampleSpan(1, SiteScope))), "[2026-11-30 06:06:28.255626]"))
	// The cached second follows time in both directions.
	r := sampleSpan(1, SiteScope)
	r.Wall -= 1e9
	assert.True(t, strings.HasPrefix(string(f.Append(nil, r)), "[2026-11-30 06:06:27.255626]"))
}

func TestNewRejects(t *testing.T) {
	for _, g := range []int{0, 10, -1} {
		_, err := New(g, Options{})
		require.ErrorContains(t, err, "must be between 1 and 9")
	}
}

func TestNames(t *testing.T) {
	assert.Empty(t, PrewarmName(2))
	assert.Equal(t, "simpler_prewarm.build", PrewarmName(3))
	assert.Equal(t, "chip.prewarm.build", PrewarmName(7))
	for want, in := range map[string]struct {
		g     int
		level string
	}{"": {4, "node"}, "l3": {6, "node"}, "host": {7, "node"}, "network1": {7, "network1"}, "node": {8, "node"}} {
		assert.Equal(t, want, LevelWord(in.g, in.level))
	}
}

func BenchmarkAppend(b *testing.B) {
	f, err := New(8, Options{})
	require.NoError(b, err)
	r := sampleSpan(8, SiteScope)
	r.Attrs = []Attr{Int("run_id", 12345), Int("slot_id", 1), Str("role", "worker")}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = f.Append(buf[:0], r)
	}
	b.SetBytes(int64(len(buf)))
}
