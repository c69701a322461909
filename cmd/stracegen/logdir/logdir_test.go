// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package logdir

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
	"github.com/phasecol/phasecol/cmd/stracegen/truth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func formatter(t *testing.T, generation int) *logfmt.Formatter {
	t.Helper()
	f, err := logfmt.New(generation, logfmt.Options{})
	require.NoError(t, err)
	return f
}

func raw(pid int32, text string) *logfmt.Record {
	return &logfmt.Record{Kind: logfmt.KindRaw, PID: pid, Text: text}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	// What an earlier run left behind keeps its names.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "host.7.log.1"), []byte("old\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "host.7.log"), []byte("12345"), 0o600))
	w, err := New(formatter(t, 8), Options{Dir: dir, RotateBytes: 10})
	require.NoError(t, err)
	for _, text := range []string{"abc", "defg", "hijklmnopqrstuv", "w"} {
		require.NoError(t, w.Write(raw(7, text)))
	}
	require.NoError(t, w.Write(raw(8, "other")))
	require.NoError(t, w.Close())
	path := func(n string) string { return filepath.Join(dir, n) }
	assert.Equal(t, "old\n", read(t, path("host.7.log.1")))
	assert.Equal(t, "12345abc\ndefg\n", read(t, path("host.7.log.2")), "turned after the line that reached the size")
	assert.Equal(t, "hijklmnopqrstuv\n", read(t, path("host.7.log.3")))
	assert.Equal(t, "w\n", read(t, path("host.7.log")))
	assert.Equal(t, "other\n", read(t, path("host.8.log")))
	assert.Equal(t, []truth.LogFile{
		{Path: path("host.7.log.2"), Lines: 2, Bytes: 9},
		{Path: path("host.7.log.3"), Lines: 1, Bytes: 16},
		{Path: path("host.7.log"), Lines: 1, Bytes: 2},
		{Path: path("host.8.log"), Lines: 1, Bytes: 6},
	}, w.Files())
	assert.Equal(t, int64(5), w.Lines())
}

// By line, every line is in the file as soon as Write returns, in one write.
func TestByLine(t *testing.T) {
	dir := t.TempDir()
	w, err := New(formatter(t, 8), Options{Dir: dir, Single: true, ByLine: true})
	require.NoError(t, err)
	require.NoError(t, w.Write(raw(7, "abc")))
	assert.Equal(t, "abc\n", read(t, filepath.Join(dir, "host.log")))
	require.NoError(t, w.Close())

	var sizes []int
	w, err = New(formatter(t, 8), Options{Stream: writerFunc(func(p []byte) (int, error) { sizes = append(sizes, len(p)); return len(p), nil }), ByLine: true})
	require.NoError(t, err)
	require.NoError(t, w.Write(raw(7, "abc")))
	require.NoError(t, w.Write(raw(8, "defg")))
	require.NoError(t, w.Close())
	assert.Equal(t, []int{4, 5}, sizes)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A torn line's pieces stay in one file: it is only turned at a line's end.
func TestInterleavedRotationTurnsAtLineEnds(t *testing.T) {
	dir := t.TempDir()
	w, err := New(formatter(t, 2), Options{Dir: dir, Single: true, Interleave: true, RotateBytes: 1000, Seed: 3})
	require.NoError(t, err)
	for n := range 2000 {
		require.NoError(t, w.Write(&logfmt.Record{PID: int32(n % 3), Inv: uint64(n), Name: "simpler_run"}))
	}
	require.NoError(t, w.Close())
	var all strings.Builder
	for _, f := range w.Files() {
		text := read(t, f.Path)
		assert.True(t, strings.HasSuffix(text, "\n"), f.Path)
		all.WriteString(text)
	}
	assert.Greater(t, len(w.Files()), 50)
	assert.Equal(t, 2000, strings.Count(all.String(), "[STRACE] v=1 "))
}

func TestErrors(t *testing.T) {
	_, err := New(formatter(t, 8), Options{})
	require.ErrorContains(t, err, "neither a folder nor a stream")
	_, err = New(formatter(t, 8), Options{Dir: t.TempDir(), Format: "xml"})
	require.ErrorContains(t, err, `format "xml"`)
	_, err = New(formatter(t, 8), Options{Dir: t.TempDir(), Interleave: true})
	require.ErrorContains(t, err, "single file")

	blocked := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	_, err = New(formatter(t, 8), Options{Dir: blocked, Single: true})
	require.ErrorContains(t, err, "making the log folder")
	w, err := New(formatter(t, 8), Options{Dir: blocked})
	require.NoError(t, err)
	require.ErrorContains(t, w.Write(raw(1, "x")), blocked)

	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "host.log"), 0o700))
	_, err = New(formatter(t, 8), Options{Dir: dir, Single: true})
	require.ErrorContains(t, err, "opening a log")

	broken := errors.New("no space left")
	w, err = New(formatter(t, 8), Options{Stream: writerFunc(func([]byte) (int, error) { return 0, broken })})
	require.NoError(t, err)
	require.ErrorIs(t, w.Write(raw(1, "x")), broken)
}

func BenchmarkWrite(b *testing.B) {
	for name, byLine := range map[string]bool{"blocks": false, "lines": true} {
		b.Run(name, func(b *testing.B) {
			f, err := logfmt.New(8, logfmt.Options{})
			require.NoError(b, err)
			w, err := New(f, Options{Dir: b.TempDir(), Single: true, ByLine: byLine})
			require.NoError(b, err)
			r := &logfmt.Record{PID: 7, TID: 7, Inv: 12345, HID: 1 << 63, Depth: 3, Name: "chip.run.runner_run.device_wall.sched", TS: 7860, Dur: 73000}
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Write(r); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, w.Close())
		})
	}
}

var _ io.Writer = writerFunc(nil)
