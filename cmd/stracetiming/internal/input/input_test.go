// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phasecol/phasecol/pkg/strace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// record is one line of the newest fixed shape.
func record(pid, inv int, name string, ts, dur int64) string {
	return fmt.Sprintf("[mono_ns=%d][T0x1][TIMING] f: [STRACE] v=1 pid=%d tid=%d inv=%d hid=ab depth=0 name=%s ts=%d dur=%d k=v\n",
		ts+dur+1, pid, pid, inv, name, ts, dur)
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

// names lists the records' names in the order read, and the error.
func names(t *testing.T, stdin string, paths ...string) ([]string, error) {
	t.Helper()
	groups, err := Expand(paths)
	require.NoError(t, err)
	r := NewReader(groups, strace.NewNames(), strings.NewReader(stdin))
	var got []string
	require.NoError(t, r.Batches(t.Context(), func(b *Batch) error {
		for _, item := range b.Items {
			if item.Kind == strace.KindRecord {
				got = append(got, b.Records[item.Index].Name.Text)
				assert.Equal(t, "k=v", string(b.Records[item.Index].Attrs))
			}
		}
		return nil
	}))
	return got, r.Err()
}

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	other := t.TempDir()
	a := write(t, dir, "host.12.log", "")
	b := write(t, dir, "host.3.log", "")
	z := write(t, dir, "host.3.log.gz", "")
	write(t, dir, "notes.txt", "")
	c := write(t, other, "server.log", "")
	rotated := write(t, other, "server.log.1", "")

	got, err := Expand([]string{dir, a, rotated, c, c, "-"})
	require.NoError(t, err)
	assert.Equal(t, []Group{
		{Scope: dir, Files: []string{a, b, z}},
		{Scope: filepath.Join(other, "server.log"), Files: []string{rotated}},
		{Scope: filepath.Join(other, "server.log"), Files: []string{c}},
		{Scope: "-", Files: []string{"-"}},
	}, got)
	size, known := Size(got[:3])
	assert.True(t, known)
	assert.Zero(t, size)
	_, known = Size(got)
	assert.False(t, known, "nobody knows how long standard input is")
}

func TestExpandOneByOneIsOneGroup(t *testing.T) {
	dir := t.TempDir()
	a, b := write(t, dir, "host.1.log", ""), write(t, dir, "host.2.log", "")
	got, err := Expand([]string{b, a})
	require.NoError(t, err)
	assert.Equal(t, []Group{{Scope: dir, Files: []string{b, a}}}, got)
}

func TestExpandRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b")
	require.NoError(t, os.Mkdir(dir, 0o700))
	_, err := Expand([]string{dir})
	require.ErrorIs(t, err, ErrNoFiles)
	_, err = Expand([]string{filepath.Join(dir, "none")})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "none")
}

func TestFilesOfOneRunAreReadInOrderOfTime(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "host.1.log", record(1, 1, "a", 100, 10)+record(1, 2, "d", 400, 10)+record(1, 3, "e", 500, 10))
	write(t, dir, "host.2.log", record(2, 1, "b", 200, 10)+record(2, 2, "c", 300, 10)+record(2, 3, "f", 600, 10))
	got, err := names(t, "", dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, got)
}

func TestOtherFilesAreReadOneAfterTheOther(t *testing.T) {
	dir := t.TempDir()
	a := write(t, dir, "a.log", record(1, 1, "late", 900, 1))
	b := write(t, dir, "b.log.gz", zipped(t, record(1, 1, "early", 100, 1)))
	got, err := names(t, record(1, 1, "stdin", 1, 1), a, b, "-")
	require.NoError(t, err)
	assert.Equal(t, []string{"late", "early", "stdin"}, got)
}

func TestStdinMayBeCompressed(t *testing.T) {
	got, err := names(t, zipped(t, record(1, 1, "a", 1, 1)), "-")
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, got)
}

func TestLinesWithoutBracketsAndLongOnes(t *testing.T) {
	junk := strings.Repeat("no marker here\n", 100_000)
	long := strings.Repeat("x", 3*maxBuffer)
	one := strings.TrimSuffix(record(1, 1, "in-a-long-line", 5, 1), "\n")
	text := junk + record(1, 1, "a", 1, 1) + "\n\n" + long + "[\n" + record(1, 1, "b", 2, 1) +
		long + one + long + "\n" + strings.Repeat(one, 9000) + "\n" + record(1, 1, "c", 3, 1) + junk
	groups := []Group{{Scope: "-", Files: []string{"-"}}}
	r := NewReader(groups, strace.NewNames(), strings.NewReader(text))
	counts := map[string]int{}
	bad := 0
	require.NoError(t, r.Batches(t.Context(), func(b *Batch) error {
		bad += len(b.Outcomes)
		for i := range b.Records {
			counts[b.Records[i].Name.Text]++
		}
		return nil
	}))
	require.NoError(t, r.Err())
	assert.Zero(t, bad)
	assert.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1, "in-a-long-line": 9001}, counts)
	assert.Equal(t, int64(len(text)), r.Taken())
}

func TestOffsetsAreThoseOfTheText(t *testing.T) {
	text := strings.Repeat("junk without\n", 50_000) + "x[y\n" + record(1, 1, "a", 1, 1)
	r := NewReader([]Group{{Scope: "-", Files: []string{"-"}}}, strace.NewNames(), strings.NewReader(text))
	s, kind, _ := r.Next()
	require.Equal(t, strace.KindRecord, kind)
	line, offset := s.Line()
	assert.Equal(t, text[offset:offset+int64(len(line))], string(line))
	assert.Equal(t, int64(strings.Index(text, "[mono")), offset)
}

func TestLastLineWithoutEndIsTorn(t *testing.T) {
	text := record(1, 1, "a", 1, 1)
	cut, _, _ := strings.Cut(text, " k=v")
	r := NewReader([]Group{{Scope: "-", Files: []string{"-"}}}, strace.NewNames(), strings.NewReader(cut))
	s, kind, _ := r.Next()
	require.Equal(t, strace.KindBad, kind)
	assert.Equal(t, strace.OutcomeTorn, s.Scanner.Outcome, "more digits of dur may be missing")
}

func TestBrokenFilesDoNotEndTheOthers(t *testing.T) {
	dir := t.TempDir()
	whole := zipped(t, strings.Repeat(record(1, 1, "a", 1, 1), 3))
	cut := write(t, dir, "cut.gz", whole[:len(whole)-12])
	fake := write(t, dir, "fake.gz", "\x1f\x8bnot gzip at all")
	good := write(t, dir, "good.log", record(1, 1, "b", 1, 1))
	empty := write(t, dir, "empty", "")
	got, err := names(t, "", cut, fake, empty, good)
	require.ErrorContains(t, err, "cut.gz")
	require.ErrorContains(t, err, "fake.gz")
	assert.Equal(t, "b", got[len(got)-1])
	assert.NotContains(t, err.Error(), "empty")
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

func TestReadErrorsAreTold(t *testing.T) {
	r := NewReader([]Group{{Scope: "-", Files: []string{"-"}}}, strace.NewNames(), failing{})
	s, _, _ := r.Next()
	assert.Nil(t, s)
	require.ErrorContains(t, r.Err(), "standard input")
	require.ErrorContains(t, r.Err(), "the disk is gone")
}

func TestBatchesStopEarly(t *testing.T) {
	text := strings.Repeat(record(1, 1, "a", 1, 1), 20_000)
	stop := errors.New("enough")
	r := NewReader([]Group{{Scope: "-", Files: []string{"-"}}}, strace.NewNames(), strings.NewReader(text))
	require.ErrorIs(t, r.Batches(t.Context(), func(*Batch) error { return stop }), stop)
	require.NoError(t, r.Close())

	ctx, cancel := context.WithCancel(t.Context())
	r = NewReader([]Group{{Scope: "-", Files: []string{"-"}}}, strace.NewNames(), strings.NewReader(text))
	require.ErrorIs(t, r.Batches(ctx, func(*Batch) error { cancel(); return nil }), context.Canceled)
	require.NoError(t, r.Close())
}

func TestOtherItems(t *testing.T) {
	text := "[mono_ns=5][T0x1][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=7 mono_ns=5 wall_ns=1000\n" +
		"[chip_process pid=8 dev=3] ready\n" +
		"[mono_ns=6][T0x1][TIMING] f: [x.cpp:1] bind phase=args start_ns=1 dur_ns=2 a=b\n" +
		"[mono_ns=7][T0x1][ERROR] f: [HOSTLOG_DROPS] v=1 pid=7 new=1 total=2 queue_full=2 claim_exhausted=0 output_failed=0 not_admitted=0\n" +
		"[STRACE] v=2 pid=1 x\n"
	r := NewReader([]Group{{Scope: "-", Files: []string{"-"}}}, strace.NewNames(), strings.NewReader(text))
	r.BindPhases = true
	require.NoError(t, r.Batches(t.Context(), func(b *Batch) error {
		var kinds []strace.Kind
		for _, item := range b.Items {
			kinds = append(kinds, item.Kind)
		}
		assert.Equal(t, []strace.Kind{strace.KindAnchor, strace.KindReady, KindBindPhase, strace.KindDrops, strace.KindBad}, kinds)
		assert.Equal(t, strace.Anchor{PID: 7, Mono: 5, Wall: 1000}, b.Anchors[0])
		assert.Equal(t, strace.Ready{PID: 8, Dev: 3}, b.Ready[0])
		assert.Equal(t, Phase{Name: "args", Attrs: "a=b", Start: 1, Dur: 2}, b.Phases[0])
		assert.Equal(t, uint64(2), b.Drops[0].Total)
		assert.Equal(t, strace.OutcomeUnknownVersion, b.Outcomes[0])
		return nil
	}))
}

func BenchmarkBatches(b *testing.B) {
	text := strings.Repeat(record(4242, 17, "chip.run.runner_run.device_wall.orch", 680697077335, 123456), 20_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader([]Group{{Scope: "-", Files: []string{"-"}}}, strace.NewNames(), strings.NewReader(text))
		if err := r.Batches(b.Context(), func(*Batch) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
