// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// write is one write to a file.
type write struct {
	data []byte
	at   int64
}

// recorder is a storage that keeps every write besides doing it.
type recorder struct {
	storage
	writes []write
	fail   error // of the next writes
	torn   int   // bytes a failing write gets through
}

func (r *recorder) WriteAt(b []byte, at int64) (int, error) {
	if r.fail != nil {
		n, err := r.storage.WriteAt(b[:min(r.torn, len(b))], at)
		return n, errors.Join(r.fail, err)
	}
	r.writes = append(r.writes, write{append([]byte(nil), b...), at})
	return r.storage.WriteAt(b, at)
}

func (w write) apply(image []byte, upTo int) []byte {
	end := int(w.at) + upTo
	for len(image) < end {
		image = append(image, 0)
	}
	copy(image[w.at:], w.data[:upTo])
	return image
}

// manyRuns are batches of runs and requests, one after the other.
func manyRuns(n uint64) []ptrace.Traces {
	var out []ptrace.Traces
	for i := range n {
		out = append(out, runTrace(i+1, i*2500), requestTrace(100_000+i, i*2500, [2]uint64{i + 1, (i + 1) * 1000}))
	}
	return out
}

// A kernel stops a killed process's write between two pages at the earliest.
// After every write, and in every such place within one, the file must open.
func TestEveryInstantOpens(t *testing.T) {
	var rec *recorder
	r := startExporter(t)
	r.mu.Lock()
	live, err := os.ReadFile(r.live())
	require.NoError(t, err)
	_, err = decodeStrict(live)
	require.NoError(t, err, "an empty file is complete as well")
	rec = &recorder{storage: r.file.file}
	r.file.file = rec
	r.mu.Unlock()

	for _, td := range manyRuns(15) {
		r.send(t, td)
		r.tick()
	}
	// And several batches in one write.
	r.send(t, manyRuns(15)...)
	r.tick()

	image := live
	known := 0
	for _, w := range rec.writes {
		assert.Equal(t, "\n]", string(w.data[len(w.data)-2:]))
		for cut := int(pageSize - w.at%pageSize); cut < len(w.data); cut += pageSize {
			torn := w.apply(append([]byte(nil), image...), cut)
			opened, unreadable := decodeOpen(torn)
			require.NoError(t, unreadable)
			require.GreaterOrEqual(t, len(opened), known)
		}
		// Any other place cuts one event, the last; those before it are whole.
		cut := rand.IntN(len(w.data))
		require.GreaterOrEqual(t, wholeEvents(t, w.apply(append([]byte(nil), image...), cut)), known)

		image = w.apply(image, len(w.data))
		complete, invalid := decodeStrict(image)
		require.NoError(t, invalid)
		known = len(complete)
	}
	data, err := os.ReadFile(r.live())
	require.NoError(t, err)
	assert.Equal(t, data, image)
	assert.Len(t, rec.writes, 31)
	assert.Greater(t, len(data), 20*pageSize)
}

// wholeEvents counts events up to the first that is cut, as a reader does that
// takes one after the other.
func wholeEvents(t *testing.T, data []byte) int {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	_, err := decoder.Token()
	require.NoError(t, err)
	n := 0
	for decoder.More() {
		var e traceEvent
		if err := decoder.Decode(&e); err != nil {
			break
		}
		n++
	}
	return n
}

// No event crosses a page's border, whatever its size.
func TestEventsStayInPages(t *testing.T) {
	r := startExporter(t, func(c *Config) { c.Lanes.MaxValueBytes = 2048 })
	for i := range uint64(300) {
		td := ptrace.NewTraces()
		attrs := hostAttrs(1, semconv.FamilyChip, "run", "text", strings.Repeat("\x01é", int(i*7)), "more", strings.Repeat("y", int(i*11)))
		addSpan(addResource(td, chip0Resource), want{name: strings.Repeat("n", int(i)), trace: i + 1, id: 1, start: i * 100, end: i*100 + 50, attrs: attrs})
		r.send(t, td)
	}
	requireNoProblems(t, r.events(t))
	data, err := os.ReadFile(r.live())
	require.NoError(t, err)
	at := 0
	for line := range strings.SplitSeq(string(data), "\n") {
		// The comma after an event is of the next one's piece.
		event := strings.TrimRight(line, ", ")
		if len(event) > 1 {
			assert.Equal(t, (at-1)/pageSize, (at+len(event)-1)/pageSize, "event at %d, %d bytes", at, len(event))
		}
		at += len(line) + 1
	}
	assert.Positive(t, r.counter(t, "args_cut"))
}

func TestRotationBySize(t *testing.T) {
	r := startExporter(t, func(c *Config) { c.Rotation.MaxMegabytes, c.Rotation.MaxBackups = 1, 0 })
	sent := manyRuns(250)
	for _, td := range sent {
		r.send(t, td)
		r.clock = r.clock.Add(time.Millisecond)
	}
	r.tick()
	var files [][]traceEvent
	for _, path := range allFiles(t, r.dir) {
		events := readTrace(t, path)
		requireNoProblems(t, events)
		files = append(files, events)
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Less(t, info.Size(), int64(1<<20+8*pageSize))
	}
	assert.Greater(t, len(files), 3)
	requireSpans(t, files, sent...)
	assert.EqualValues(t, len(files)-1, r.counter(t, "files_rotated", "size"))
	// The same process has the same number in every file.
	for _, events := range files {
		for _, e := range events {
			if e.Name == "process_name" && e.arg("name") == "simpler pid 16084 @ h1" {
				assert.EqualValues(t, 16084, e.PID)
			}
		}
	}
}

func TestRotationByAge(t *testing.T) {
	r := startExporter(t, func(c *Config) { c.Rotation.MaxAge, c.Rotation.MaxBackups = time.Minute, 0 })
	r.clock = r.clock.Add(2 * time.Minute)
	r.tick()
	assert.Len(t, allFiles(t, r.dir), 1, "an empty file stays")
	r.send(t, runTrace(1, 0))
	r.tick()
	r.send(t, runTrace(2, 5000))
	r.clock = r.clock.Add(59 * time.Second)
	r.tick()
	files := allFiles(t, r.dir)
	require.Len(t, files, 2)
	assert.Equal(t, "trace-20251129T233200.000000.json", filepath.Base(files[0]))
	requireSpans(t, [][]traceEvent{readTrace(t, files[0])}, runTrace(1, 0))
	requireSpans(t, [][]traceEvent{readTrace(t, files[1])}, runTrace(2, 5000))
	requireNoProblems(t, readTrace(t, files[1]))
	assert.EqualValues(t, 1, r.counter(t, "files_rotated", "age"))
}

// A process that is gone gives its number back two files later.
func TestForgetsIdleProcesses(t *testing.T) {
	r := startExporter(t, func(c *Config) { c.Rotation.MaxAge = time.Minute })
	one := ptrace.NewTraces()
	// In slot 2 only: the slots before it stay without a lane.
	addInvocation(addResource(one, map[string]any{"service.name": "old", "process.pid": int64(50)}), 50, 1, 1, 0, 0, semconv.AttrPrefix+"slot_id", int64(2))
	r.send(t, one)
	for i := range uint64(3) {
		r.clock = r.clock.Add(2 * time.Minute)
		r.tick()
		r.send(t, runTrace(i+1, i*3000))
	}
	assert.Len(t, r.line.reg.procs, 3)
	assert.Len(t, r.line.reg.tids, 9)
	two := ptrace.NewTraces()
	addInvocation(addResource(two, map[string]any{"service.name": "new", "process.pid": int64(50)}), 50, 9, 9, 0, 0)
	r.send(t, two)
	for _, e := range r.events(t) {
		if e.arg("name") == "new pid 50" {
			assert.EqualValues(t, 50, e.PID)
		}
	}
}

func TestBackupsAndCompression(t *testing.T) {
	r := startExporter(t, func(c *Config) {
		c.Rotation.MaxAge, c.Rotation.MaxBackups, c.Compression = time.Minute, 3, CompressionGzip
	})
	for i := range uint64(7) {
		r.send(t, runTrace(i+1, i*3000))
		r.clock = r.clock.Add(2 * time.Minute)
		r.tick()
	}
	require.Eventually(t, func() bool {
		zipped, err := filepath.Glob(filepath.Join(r.dir, "trace-*"))
		return err == nil && len(zipped) == 3 && strings.HasSuffix(zipped[0], ".json.gz") && strings.HasSuffix(zipped[1], ".json.gz") && strings.HasSuffix(zipped[2], ".json.gz")
	}, 10*time.Second, 5*time.Millisecond)
	zipped, err := filepath.Glob(filepath.Join(r.dir, "trace-*"))
	require.NoError(t, err)
	for i, path := range zipped {
		file, err := os.Open(path)
		require.NoError(t, err)
		zip, err := gzip.NewReader(file)
		require.NoError(t, err)
		data, err := io.ReadAll(zip)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		events, err := decodeStrict(data)
		require.NoError(t, err)
		n := uint64(i + 4)
		requireSpans(t, [][]traceEvent{events}, runTrace(n+1, n*3000))
	}
	assert.EqualValues(t, 4, r.counter(t, "backups_removed"))
}

// What an earlier process left is put away, also what it left unfinished.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"trace.json":                               "[\n{\"ph\":\"M\"}   ",
		"trace.json.tmp":                           "[\n]",
		"trace-20200101T000000.000000.json":        "[\n{}\n]",
		"trace-20200101T000001.000000.json.gz.tmp": "half",
		"trace-notes.json":                         "not ours",
		"trace-x-20200101T000000.000000.json":      "of another exporter",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	r := startExporter(t, func(c *Config) { c.Directory = dir })
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "trace-20200101T000001.000000.json.gz.tmp"))
		return errors.Is(err, os.ErrNotExist)
	}, 10*time.Second, 5*time.Millisecond)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	assert.Equal(t, []string{
		"trace-20200101T000000.000000.json", "trace-20251129T233000.000000.json",
		"trace-notes.json", "trace-x-20200101T000000.000000.json", "trace.json",
	}, names)
	assert.EqualValues(t, 1, r.counter(t, "files_rotated", "start"))
}

// Somebody deletes the live file: the next events must be found again.
func TestLiveFileDeleted(t *testing.T) {
	r := startExporter(t)
	r.send(t, runTrace(1, 0))
	r.tick()
	require.NoError(t, os.Remove(r.live()))
	r.tick()
	r.send(t, runTrace(2, 3000))
	events := r.events(t)
	requireNoProblems(t, events)
	requireSpans(t, [][]traceEvent{events}, runTrace(2, 3000))
	assert.EqualValues(t, 1, r.counter(t, "files_rotated", "missing"))
}

// A disk that is full for a while loses nothing: what is drawn stays in
// memory up to a bound, further batches are refused, and all is written later.
func TestDiskFull(t *testing.T) {
	r := startExporter(t)
	errFull := errors.New("no space left on device")
	rec := &recorder{storage: r.file.file}
	r.mu.Lock()
	r.file.file = rec
	r.mu.Unlock()
	sent := []ptrace.Traces{runTrace(1, 0)}
	r.send(t, sent...)
	r.tick()

	rec.fail, rec.torn = errFull, 1000
	refused := 0
	for i := uint64(2); refused < 3; i++ {
		td := runTrace(i, i*3000)
		if err := r.push(t.Context(), td); err != nil {
			require.ErrorIs(t, err, errFull)
			refused++
			continue
		}
		sent = append(sent, td)
		require.Less(t, i, uint64(10_000), "the buffer has no bound")
	}
	assert.Less(t, len(r.file.buf), maxHeld+1<<20)
	assert.Positive(t, r.counter(t, "file_errors", "write"))

	rec.fail = nil
	r.tick()
	var files [][]traceEvent
	for _, path := range allFiles(t, r.dir) {
		events := readTrace(t, path)
		requireNoProblems(t, events)
		files = append(files, events)
	}
	requireSpans(t, files, sent...)
}

// While the disk is full, the file on it closes where it was.
func TestDiskFullFileStaysComplete(t *testing.T) {
	r := startExporter(t)
	r.send(t, runTrace(1, 0))
	r.tick()
	rec := &tornOnce{storage: r.file.file}
	r.mu.Lock()
	r.file.file = rec
	r.mu.Unlock()
	r.send(t, runTrace(2, 3000))
	r.tick()
	events := readTrace(t, r.live())
	requireSpans(t, [][]traceEvent{events}, runTrace(1, 0))
	r.tick()
	requireSpans(t, [][]traceEvent{readTrace(t, r.live())}, runTrace(1, 0), runTrace(2, 3000))
}

// tornOnce breaks off its first write in the middle.
type tornOnce struct {
	storage
	done bool
}

func (f *tornOnce) WriteAt(b []byte, at int64) (int, error) {
	if f.done {
		return f.storage.WriteAt(b, at)
	}
	f.done = true
	n, err := f.storage.WriteAt(b[:len(b)/2], at)
	return n, errors.Join(errors.New("no space left on device"), err)
}

// A rotation that cannot be done goes on in the same file.
func TestRotationFails(t *testing.T) {
	r := startExporter(t, func(c *Config) { c.Rotation.MaxAge = time.Minute })
	r.send(t, runTrace(1, 0))
	r.clock = r.clock.Add(time.Hour)
	blocked := errors.New("no inode left")
	r.file.open = func(string) (storage, error) { return nil, blocked }
	r.tick()
	r.send(t, runTrace(2, 3000))
	r.tick()
	assert.EqualValues(t, 2, r.counter(t, "file_errors", "rotate"))
	requireSpans(t, [][]traceEvent{readTrace(t, r.live())}, runTrace(1, 0), runTrace(2, 3000))
	r.file.open = openFile
	r.tick()
	require.Len(t, allFiles(t, r.dir), 2)
	requireSpans(t, [][]traceEvent{readTrace(t, allFiles(t, r.dir)[0])}, runTrace(1, 0), runTrace(2, 3000))
}
