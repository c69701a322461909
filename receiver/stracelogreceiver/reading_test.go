// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSpan checks one trace in full, times by hand.
func TestSpan(t *testing.T) {
	r := newRig(t)
	r.cfg.ServiceName, r.cfg.IncludeFilePath = "svc", true
	l := newLog(7)
	l.invocation(1, 1)
	path := r.path("host.7.log")
	r.write(path, "[chip_process pid=7 dev=3] ready\n"+l.take())
	r.start()
	spans := r.await(2)
	byName := map[string]flatSpan{spans[0].name: spans[0], spans[1].name: spans[1]}
	root, bind := byName["chip.run"], byName["chip.run.bind"]

	assert.Equal(t, anchorWall+999_995, root.start)
	assert.Equal(t, int64(900_000), root.duration)
	assert.Empty(t, root.parent)
	assert.Equal(t, anchorWall+1_000_000, bind.start)
	assert.Equal(t, int64(10), bind.duration)
	assert.Equal(t, root.id, bind.parent)
	assert.Equal(t, root.trace, bind.trace)
	assert.Equal(t, map[string]any{
		"service.name": "svc", "host.name": "n1", "process.pid": int64(7), "hw.id": "3", "hw.type": "npu", "log.file.path": path,
	}, bind.resource)
	assert.Equal(t, map[string]any{
		"thread.id": int64(7), "strace.hid": "ab", "strace.depth": int64(1), "strace.inv": int64(1), "strace.stage": "run.bind",
		"strace.family": "chip", "strace.clock": "host", "strace.clock.source": "anchor",
		"strace.clock.error": bind.attrs["strace.clock.error"], "strace.attr.i": int64(0),
	}, bind.attrs)
	// The host clock vouches for no such time, so the bound is drift: 100 ppm
	// of the millisecond since the anchor.
	assert.InDelta(t, 99e-9, bind.attrs["strace.clock.error"], 1e-12)
}

// TestStartAtEnd: what was there before is left alone, what comes is read.
func TestStartAtEnd(t *testing.T) {
	r := newRig(t)
	r.cfg.StartAt = "end"
	l := newLog(7)
	l.invocation(1, 2)
	r.write(r.path("old.log"), l.take())
	r.start()
	// A new file is read from its beginning, once the old one was seen.
	require.Eventually(t, func() bool { return strings.Contains(messages(r.logs), "Started watching file") }, waitFor, tick)
	m := newLog(8)
	m.invocation(1, 1)
	r.write(r.path("new.log"), m.take())
	r.await(2)
	l.invocation(2, 2)
	r.write(r.path("old.log"), l.take())
	spans := r.await(5)
	assert.Len(t, spans, 5)
	for _, s := range spans {
		if s.resource["process.pid"] == int64(7) {
			assert.Equal(t, int64(2), s.attrs["strace.inv"])
		}
	}
}

// TestRotationByRename: an invocation whose lines lie in two files is whole.
func TestRotationByRename(t *testing.T) {
	r := newRig(t)
	l := newLog(7)
	path := r.path("host.log")
	l.children(1, 3)
	r.write(path, l.take())
	r.start()
	r.awaitRead(3)
	l.span(1, 1, "chip.run.validate", 1_000_500, 10, "")
	r.write(path, l.take())
	require.NoError(t, os.Rename(path, path+".1"))
	l.root(1)
	r.write(path, l.take())
	spans := r.await(5)
	_, traces := ids(spans)
	assert.Equal(t, 1, traces)
	assert.Zero(t, incomplete(spans))
}

// TestManyRotations: written and renamed at speed, nothing is lost or twice.
func TestManyRotations(t *testing.T) {
	r := newRig(t)
	r.start()
	l := newLog(7)
	path := r.path("host.log")
	const invocations, children = 400, 7
	for inv := 1; inv <= invocations; inv++ {
		l.children(inv, children)
		if inv%10 == 0 { // between an invocation's records
			r.write(path, l.take())
			require.NoError(t, os.Rename(path, fmt.Sprintf("%s.%d", path, inv)))
		}
		l.root(inv)
		r.write(path, l.take())
	}
	spans := r.await(invocations * (children + 1))
	assert.Len(t, spans, invocations*(children+1))
	spanIDs, traces := ids(spans)
	assert.Equal(t, invocations*(children+1), spanIDs)
	assert.Equal(t, invocations, traces)
	assert.Zero(t, incomplete(spans))
}

// TestCopyTruncate: with the copy among the files, nothing is lost, however
// fast the file grows again.
func TestCopyTruncate(t *testing.T) {
	r := newRig(t)
	path := r.path("host.log")
	r.start()
	l := newLog(7)
	inv := 0
	for range 5 {
		for range 10 {
			inv++
			l.invocation(inv, 3)
		}
		r.write(path, l.take())
		r.await(inv * 4)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path+".1", text, 0o644))
		require.NoError(t, os.Truncate(path, 0))
	}
	spans := r.next.spans()
	spanIDs, traces := ids(spans)
	assert.Equal(t, inv*4, spanIDs)
	assert.Equal(t, inv, traces)
	assert.Len(t, spans, inv*4, "the copy is known by its beginning")
}

// TestTruncatedByRestart: a server that is started anew with its output
// redirected to the same file prints the same banner, longer than what
// fileconsumer knows a file by.
func TestTruncatedByRestart(t *testing.T) {
	r := newRig(t)
	path := r.path("host.log")
	banner := strings.Repeat("the same first thousand bytes at every start\n", 30)
	l := newLog(7)
	for inv := 1; inv <= 10; inv++ {
		l.invocation(inv, 3)
	}
	r.write(path, banner+l.take())
	r.start()
	r.await(40)
	require.NoError(t, os.Truncate(path, 0))
	m := newLog(8)
	for inv := 1; inv <= 5; inv++ {
		m.invocation(inv, 3)
	}
	r.write(path, banner+m.take())
	spans := r.await(60)
	assert.Len(t, spans, 60)
}

func TestGzip(t *testing.T) {
	r := newRig(t)
	l := newLog(7)
	l.invocation(1, 3)
	whole := l.take()
	l.invocation(2, 0)
	cut := strings.SplitAfter(l.take(), " dur=90")[0] // of 900000
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(whole + cut))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, os.WriteFile(r.path("host.log.gz"), packed.Bytes(), 0o644))
	r.start()
	spans := r.await(4)
	r.awaitMetric("records", 5)
	assert.Equal(t, int64(1), r.metric("records", "torn"), "a number that is cut is none")
	assert.Len(t, spans, 4)
	assert.Zero(t, r.metric("bytes_behind"), "unpacked bytes cannot be compared with the size")
}

// TestPackedByRotation: a file that was half read and then compressed goes on
// where it was.
func TestPackedByRotation(t *testing.T) {
	r := newRig(t)
	l := newLog(7)
	path := r.path("host.log")
	l.invocation(1, 3)
	text := l.take() + strings.Repeat("noise to fill the fingerprint ...................\n", 25)
	r.write(path, text)
	r.start()
	r.await(4)
	l.invocation(2, 3)
	text += l.take()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path+".1.gz", packed.Bytes(), 0o644))
	spans := r.await(8)
	assert.Len(t, spans, 8)
}

// TestDeletedSpool: the runtime deletes its spool when it exits; what was
// written before is read from the open file.
func TestDeletedSpool(t *testing.T) {
	r := newRig(t)
	l := newLog(7)
	path := r.path("spool", "host.7.log")
	l.invocation(1, 3)
	r.write(path, l.take())
	r.start()
	r.await(4)
	for inv := 2; inv <= 50; inv++ {
		l.invocation(inv, 3)
	}
	r.write(path, l.take())
	require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	spans := r.await(200)
	assert.Len(t, spans, 200)
	assert.Zero(t, incomplete(spans))
}

// TestMissingPath: the receiver says what it cannot read, and reads it once
// it can.
func TestMissingPath(t *testing.T) {
	r := newRig(t)
	missing := filepath.Join(r.dir, "later", "logs")
	empty := r.path("empty", "x")
	r.cfg.Include = []string{filepath.Join(missing, "*.log"), filepath.Join(filepath.Dir(empty), "*.log")}
	r.start()
	warnings := r.logs.FilterMessage("cannot read the directory of an include pattern; watching for it").All()
	require.Len(t, warnings, 1)
	assert.Equal(t, missing, warnings[0].ContextMap()["directory"])
	warnings = r.logs.FilterMessage("no file matches an include pattern yet; watching for it").All()
	require.Len(t, warnings, 1)
	assert.Equal(t, r.cfg.Include[1], warnings[0].ContextMap()["pattern"])
	assert.Equal(t, 1, r.logs.FilterMessageSnippet("no storage is set").Len())
	l := newLog(7)
	l.invocation(1, 1)
	require.NoError(t, os.MkdirAll(missing, 0o755))
	r.write(filepath.Join(missing, "host.log"), l.take())
	r.await(2)
}

// TestBadInput: junk is counted and skipped, and what is good among it is read.
func TestBadInput(t *testing.T) {
	r := newRig(t)
	l := newLog(7)
	l.invocation(1, 2)
	lines := strings.SplitAfter(l.take(), "\n")
	text := "\x00\x00" + lines[0] + strings.Repeat("\x00z", 5<<19) + "\n" + lines[1] +
		"[STRACE] v=2 pid=1 tid=1\n[STRACE] v=1 pid=1 tid=\n[STRACE] v=1 pid=1 tid=1 inv=1 hid=zz depth=0\n" +
		"text about [STRACE]\n" + lines[2] + lines[3]
	r.write(r.path("host.log"), text)
	r.start()
	spans := r.await(3)
	assert.Len(t, spans, 3)
	assert.Equal(t, int64(1), r.metric("records", "unknown_version"))
	assert.Equal(t, int64(2), r.metric("records", "torn")+r.metric("records", "malformed"))
	assert.Equal(t, int64(3), r.metric("records", "span"))
}

func cri(stamp time.Time, stream, tag, text string) string {
	return stamp.UTC().Format(time.RFC3339Nano) + " " + stream + " " + tag + " " + text + "\n"
}

// TestContainerLogs: pieces are joined per stream, identity comes from the
// path, and the stamps are a clock.
func TestContainerLogs(t *testing.T) {
	const dir = "serving_atom-0_6f1c-2e"
	stamp := time.Unix(0, anchorWall)
	record := func(depth int, name string, ts, dur int) string {
		return fmt.Sprintf("[mono_ns=%d][T0x1][TIMING] emit_host_span: [STRACE] v=1 pid=14 tid=14 inv=1 hid=ab depth=%d name=%s ts=%d dur=%d ", ts+dur+10, depth, name, ts, dur)
	}
	bind, root := record(1, "chip.run.bind", 1000, 100), record(0, "chip.run", 900, 500)
	at := func(mono int) time.Time { return stamp.Add(time.Duration(mono)) }
	criText := cri(at(1), "stdout", "F", "starting") + cri(at(1110), "stderr", "P", bind[:70]) + cri(at(1111), "stdout", "P", "half of ") +
		cri(at(1200), "stderr", "F", bind[70:]) + cri(at(1300), "stdout", "F", "a line") + cri(at(1410), "stderr", "F", root)
	docker := func(mono int, text string) string {
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		return `{"log":` + string(quoted) + `,"stream":"stderr","time":"` + at(mono).UTC().Format(time.RFC3339Nano) + `"}` + "\n"
	}
	dockerText := docker(1200, bind[:70]) + docker(1200, bind[70:]+"\n") + docker(1410, root+"\n")
	id64 := strings.Repeat("0123456789abcdef", 4)
	for _, tt := range []struct {
		name, path, text string
		resource         map[string]any
	}{
		{"cri", filepath.Join("pods", dir, "engine", "2.log"), criText, map[string]any{
			"k8s.namespace.name": "serving", "k8s.pod.name": "atom-0", "k8s.pod.uid": "6f1c-2e", "k8s.container.name": "engine",
			"k8s.container.restart_count": int64(2), "service.name": "simpler", "host.name": "n1", "process.pid": int64(14),
		}},
		{"docker", filepath.Join("containers", id64, id64+"-json.log"), dockerText, map[string]any{
			"container.id": id64, "service.name": "simpler", "host.name": "n1", "process.pid": int64(14),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.write(r.path(tt.path), tt.text)
			r.start()
			spans := r.await(2)
			require.Len(t, spans, 2)
			for _, s := range spans {
				assert.Equal(t, tt.resource, s.resource)
				assert.Equal(t, "record", s.attrs["strace.clock.source"])
				if s.name == "chip.run" {
					// The root's line was stamped as it was printed.
					assert.Equal(t, anchorWall+900, s.start)
				}
			}
			assert.Zero(t, incomplete(spans))
		})
	}
}

// TestFormatDemanded: a file that lacks the shape asked for is counted.
func TestFormatDemanded(t *testing.T) {
	r := newRig(t)
	r.cfg.Format = "cri"
	l := newLog(7)
	l.invocation(1, 1)
	r.write(r.path("host.log"), l.take())
	r.start()
	r.awaitMetric("skipped_lines", 3)
	assert.Empty(t, r.next.spans())
}

// TestTwoContainersWithEqualPIDs are never merged.
func TestTwoContainersWithEqualPIDs(t *testing.T) {
	r := newRig(t)
	l := newLog(14)
	l.invocation(1, 2)
	text := l.take()
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(cri(time.Unix(0, anchorWall), "stderr", "F", strings.TrimSuffix(line, "\n")))
	}
	r.write(r.path("pods", "a_p-0_u1", "c", "0.log"), b.String())
	r.write(r.path("pods", "a_p-1_u2", "c", "0.log"), b.String()+"2026-01-01T00:00:00Z stdout F x\n")
	r.start()
	spans := r.await(6)
	spanIDs, traces := ids(spans)
	assert.Equal(t, 6, spanIDs)
	assert.Equal(t, 2, traces)
}

// TestStitchingAcrossFiles: chip files read before their parent's still hang
// under its dispatches, and the parent's trace is one.
func TestStitchingAcrossFiles(t *testing.T) {
	r := newRig(t)
	parent, err := os.ReadFile(filepath.Join(goldenDir, "g8", "host.101.log"))
	require.NoError(t, err)
	r.cfg.StitchWait = 5 * time.Second
	r.start()
	for _, name := range []string{"host.102.log", "host.103.log"} {
		text, err := os.ReadFile(filepath.Join(goldenDir, "g8", name))
		require.NoError(t, err)
		r.write(r.path(name), string(text))
	}
	r.await(2) // the prewarms; the invocations wait
	r.write(r.path("host.101.log"), string(parent))
	spans := r.await(47)
	assert.Len(t, spans, 47)
	stitched := 0
	for _, s := range spans {
		if s.attrs["strace.stitch"] == "identity" {
			stitched++
		}
	}
	assert.Equal(t, 2, stitched)
	_, traces := ids(spans)
	assert.Equal(t, 3, traces)
}
