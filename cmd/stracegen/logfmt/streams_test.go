// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package logfmt

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCRI(t *testing.T) {
	const stamp = "2026-11-29T22:06:28.25562612Z" // the last digit, a zero, is left out
	const wall = 1795989988255626120
	assert.Equal(t, stamp+" stderr F hello\n", string(AppendCRI(nil, []byte("hello"), wall, 5)))
	assert.Equal(t, stamp+" stderr F \n", string(AppendCRI(nil, nil, wall, 5)))
	assert.Equal(t, stamp+" stderr P hello\n"+stamp+" stderr P  worl\n"+stamp+" stderr F d\n",
		string(AppendCRI(nil, []byte("hello world"), wall, 5)))
}

func TestDocker(t *testing.T) {
	const wall = 1795989988255626120
	line := "a\"b\\c\r\t\x01<&>é\xff 0123456789"
	out := string(AppendDocker(nil, []byte("a<b"), wall, 100))
	want := `{"log":"a\u003cb\n","stream":"stderr","time":"2026-11-29T22:06:28.25562612Z"}`
	assert.Equal(t, []string{want, ""}, strings.Split(out, "\n"))

	out = string(AppendDocker([]byte{}, []byte(line), wall, 7))
	var text strings.Builder
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for i, l := range lines {
		var rec struct{ Log, Stream, Time string }
		require.NoError(t, json.Unmarshal([]byte(l), &rec), l)
		assert.Equal(t, "stderr", rec.Stream)
		assert.Equal(t, i == len(lines)-1, strings.HasSuffix(rec.Log, "\n"))
		text.WriteString(rec.Log)
	}
	assert.Equal(t, strings.ToValidUTF8(line, "\ufffd")+"\n", text.String())
	require.Error(t, CheckFormat("journald"))
}

func TestNoiseHoldsNoRecord(t *testing.T) {
	a, b := NewNoise(3), NewNoise(3)
	mentions, blank, long := 0, 0, 0
	for range 20_000 {
		line := a.Append(nil)
		require.Equal(t, string(line), string(b.Append(nil)), "depends on the seed alone")
		require.Equal(t, byte('\n'), line[len(line)-1])
		require.NotContains(t, string(line[:len(line)-1]), "\n")
		require.NotContains(t, string(line), "[STRACE] v=")
		if strings.Contains(string(line), "[STRACE]") {
			mentions++
		}
		if len(line) == 1 {
			blank++
		}
		if len(line) > 1000 {
			long++
		}
	}
	assert.Positive(t, mentions)
	assert.Positive(t, blank)
	assert.Positive(t, long)
}

// Four processes on one pipe: bodies stay whole and in each process's order,
// and the pipe shows every kind of damage the real one did.
func TestInterleaver(t *testing.T) {
	const each = 5_000
	f, err := New(1, Options{})
	require.NoError(t, err)
	i := NewInterleaver(f, 9)
	var out []byte
	for n := range each {
		for pid := range int32(4) {
			out = i.Append(out, &Record{
				Kind: KindSpan, PID: 100 + pid, TID: int64(100 + pid), Inv: uint64(n), Name: "run_prepared", TS: 5, Dur: 6,
				Attrs: []Attr{Str("clk", "dev")},
			})
		}
	}
	out = i.Flush(out)
	assert.Equal(t, byte('\n'), out[len(out)-1])
	assert.Empty(t, i.Flush(nil))

	next := map[string]int{}
	for _, m := range regexp.MustCompile(`\[STRACE\] v=1 pid=(\d+) tid=\d+ inv=(\d+) hid=0 depth=0 name=run_prepared ts=5 dur=6 clk=dev`).FindAllStringSubmatch(string(out), -1) {
		require.Equal(t, strconv.Itoa(next[m[1]]), m[2], "order of pid %s", m[1])
		next[m[1]]++
	}
	assert.Equal(t, map[string]int{"100": each, "101": each, "102": each, "103": each}, next)

	text := string(out)
	clean := regexp.MustCompile(`(?m)^\[2026|^\[1970[^\[]*\]\[T0x0\]\[INFO_V9\] ~StraceScope: \[strace\.h:129\] \[STRACE\] [^\[]*$`)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	whole := 0
	for _, l := range lines {
		if clean.MatchString(l) {
			whole++
		}
	}
	share := float64(whole) / float64(len(lines))
	assert.Less(t, share, 0.85, "share of clean lines")
	assert.Greater(t, share, 0.3, "share of clean lines")
	assert.Contains(t, text, "clk=dev[1970", "two records on one line")
	assert.Contains(t, text, "clk=dev[strace.h:129]", "a tail of another prefix behind the attributes")
	assert.Contains(t, text, "~StraceScope: [1970", "stacked prefixes")
	assert.Contains(t, text, "\n\n", "blank lines")
	assert.Contains(t, text, "\n[strace.h:129] [STRACE]", "a body without its prefix")
}

func TestInterleaverLeavesNewerGenerationsAlone(t *testing.T) {
	f, err := New(4, Options{})
	require.NoError(t, err)
	i := NewInterleaver(f, 1)
	var got, want []byte
	for n := range 100 {
		r := &Record{Kind: KindSpan, PID: int32(n % 3), Name: "simpler_run"}
		got, want = i.Append(got, r), f.Append(want, r)
	}
	assert.Equal(t, string(want), string(i.Flush(got)))
}
