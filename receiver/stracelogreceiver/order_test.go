// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
)

// runLog is the log of an L3 process and of its one worker.
type runLog struct{ parent, worker bytes.Buffer }

func (l *runLog) line(b *bytes.Buffer, pid, inv, depth int, name string, ts, dur int64, attrs string) {
	fmt.Fprintf(b, "[mono_ns=%d][T0x1][TIMING] emit_host_span: [STRACE] v=1 pid=%d tid=%d inv=%d hid=ab depth=%d name=%s ts=%d dur=%d %s\n",
		ts+dur+10, pid, pid, inv, depth, name, ts, dur, attrs)
}

// run prints 6 records of the parent and 3 of the worker, 1 ms after the last.
func (l *runLog) run(id int) {
	at := int64(id) * 1_000_000
	task := fmt.Sprintf("run_id=%d task_slot=0 group_index=0 worker_id=0 dispatch_id=%d", id, id)
	l.line(&l.parent, 100, id, 0, "node.submit", at+10, 10, fmt.Sprintf("run_id=%d task_slot=0 group_index=0 group_size=1 worker_id=0 role=facade", id))
	l.line(&l.parent, 100, id, 0, "node.graph_build", at, 30, fmt.Sprintf("run_id=%d role=facade", id))
	l.line(&l.parent, 100, id, 0, "node.frame_submit", at+110, 10, task+" role=worker")
	l.line(&l.parent, 100, id, 0, "node.dispatch", at+100, 30, task+" role=scheduler slot_id=0 generation=1")
	l.line(&l.worker, 200, id, 1, "chip.run.bind", at+210, 100, "")
	l.line(&l.worker, 200, id, 1, "chip.run.runner_run", at+320, 300, "")
	l.line(&l.worker, 200, id, 0, "chip.run", at+200, 600, fmt.Sprintf("run_id=%d dispatch_id=%d slot_id=0 generation=1 run_epoch=1", id, id))
	l.line(&l.parent, 100, id, 0, "node.complete", at+900, 10, task+" role=worker outcome=0")
	l.line(&l.parent, 100, id, 0, "node.post_fence_retirement", at+920, 10, fmt.Sprintf("run_id=%d slot_id=0 generation=1 role=facade", id))
}

// TestBacklogIsReadInOrder: files that hold many times what may be kept in
// memory, rotated in the middle of invocations, give whole traces, each worker
// under its dispatch, and memory stays flat.
func TestBacklogIsReadInOrder(t *testing.T) {
	const runs = 12_000
	r := newRig(t)
	r.cfg.Limits.Bytes = 2 << 20
	r.cfg.StitchWait = time.Second
	var l runLog
	anchor := func(pid int) string {
		return fmt.Sprintf("[mono_ns=1][T0x1][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=%d mono_ns=1 wall_ns=%d\n", pid, anchorWall+1)
	}
	l.parent.WriteString(anchor(100))
	l.worker.WriteString("[chip_process pid=200 dev=0] ready\n" + anchor(200))
	rotated := 0
	rotate := func(b *bytes.Buffer, name string, from int) {
		// The last lines of an invocation go into the next file.
		text := b.String()
		cut := len(text)
		for range from {
			cut = strings.LastIndexByte(text[:cut-1], '\n') + 1
		}
		r.write(r.path(name), text[:cut])
		b.Reset()
		b.WriteString(text[cut:])
	}
	for id := 1; id <= runs; id++ {
		l.run(id)
		if id%4000 == 0 && id < runs {
			rotated++
			rotate(&l.parent, fmt.Sprintf("host.100.log.%d", 9-rotated), 3)
			rotate(&l.worker, fmt.Sprintf("host.200.log.%d", 9-rotated), 2)
		}
	}
	r.write(r.path("host.100.log"), l.parent.String())
	r.write(r.path("host.200.log"), l.worker.String())

	var held int64
	r.next.setAnswer(func(context.Context, ptrace.Traces) error {
		held = max(held, r.metric("held_bytes"))
		return nil
	})
	r.start()
	spans := r.await(runs * 10) // 9 records and the run itself
	assert.Len(t, spans, runs*10)
	assert.Zero(t, incomplete(spans))
	spanIDs, traces := ids(spans)
	assert.Equal(t, runs*10, spanIDs)
	assert.Equal(t, runs, traces)
	assert.Equal(t, int64(runs), r.metric("stitched", "identity"))
	assert.Zero(t, r.metric("evictions"))
	assert.LessOrEqual(t, held, int64(2<<20))
}

// TestLogTime is that of the first record on the host's clock.
func TestLogTime(t *testing.T) {
	times := newLogTimes()
	for _, tt := range []struct {
		name, text string
		want       int64
	}{
		{"prefix", "noise\n[mono_ns=70][T0x1][TIMING] f: [STRACE] v=1 pid=1 tid=1 inv=1 hid=0 depth=0 name=chip.run ts=10 dur=20 \n", 70},
		{"end of the span", "[STRACE] v=1 pid=1 tid=1 inv=1 hid=0 depth=0 name=chip.run ts=10 dur=20 \n", 30},
		{"device records have none", "[STRACE] v=1 pid=1 tid=1 inv=1 hid=0 depth=2 name=chip.run.runner_run.device_wall ts=0 dur=20 clk=dev\n" +
			"[STRACE] v=1 pid=1 tid=1 inv=1 hid=0 depth=0 name=chip.run ts=40 dur=2 \n", 42},
		{"anchor", "[CLOCK_ANCHOR] v=1 pid=1 mono_ns=55 wall_ns=5\n", 55},
		{"dressed", "2026-01-01T00:00:00Z stderr F [CLOCK_ANCHOR] v=1 pid=1 mono_ns=56 wall_ns=5\n", 56},
		{"none", "[chip_process pid=1 dev=2] ready\n", 0},
		{"far away", strings.Repeat("[chip_process pid=1 dev=2] ready\n", 40) + "[CLOCK_ANCHOR] v=1 pid=1 mono_ns=56 wall_ns=5\n", 0},
	} {
		assert.Equal(t, tt.want, times.of(container.Auto, []byte(tt.text)), tt.name)
	}
	assert.Zero(t, times.of(container.CRI, []byte("[CLOCK_ANCHOR] v=1 pid=1 mono_ns=56 wall_ns=5\n")), "not of the shape demanded")
}

// many passes text of full calls, so that the file is waited for.
func many(t *testing.T, r *reader, path string, lines []string) {
	t.Helper()
	tokens, ends := make([][]byte, fullCallback), make([]int64, fullCallback+1)
	for i := range tokens {
		if i < len(lines) {
			tokens[i] = []byte(lines[i])
		}
		ends[i+1] = ends[i] + 100
	}
	require.NoError(t, r.consume(t.Context(), tokens, map[string]any{"log.file.path": path}, 1, ends))
}

// TestOrderWithinAScope: what another file of the scope brings later, but
// printed earlier, is filed first.
func TestOrderWithinAScope(t *testing.T) {
	r := newRig(t)
	r.store()
	c, _ := checked(t, r)
	rd := c.reader
	rd.grace, rd.patience = 0, time.Hour
	line := func(ts int) string {
		return fmt.Sprintf("[STRACE] v=1 pid=7 tid=7 inv=0 hid=0 depth=0 name=ext.app.x ts=%d dur=1 \n", ts)
	}
	// The newer file comes first, with little: it waits for the poll's end.
	require.NoError(t, rd.consume(t.Context(), [][]byte{[]byte(line(500))}, map[string]any{"log.file.path": "/x/a.log"}, 1, []int64{0, 100}))
	assert.Zero(t, rd.blocks)
	// An older one brings much: up to its end it is filed, not the newer one.
	many(t, rd, "/x/a.log.1", []string{line(100), line(200)})
	assert.Equal(t, uint64(2), rd.blocks)
	require.Len(t, rd.lanes["dir:/x"].files[0].waiting, 1)
	assert.Equal(t, int64(501), rd.lanes["dir:/x"].files[0].waiting[0].at)
	// What goes on beyond the newer one's time takes it along.
	many(t, rd, "/x/a.log.1", []string{line(300), line(600)})
	assert.Equal(t, uint64(5), rd.blocks)
	assert.False(t, rd.disorder)
}

// TestNobodyWaitsForever: a file that brought much and then nothing has been
// read.
func TestNobodyWaitsForever(t *testing.T) {
	r := newRig(t)
	r.store()
	r.cfg.Clock.Sources = []string{"anchor"} // nothing is placed, and nothing sent
	c, _ := checked(t, r)
	c.reader.grace, c.reader.patience = 0, 4*nap
	many(t, c.reader, "/x/a.log", []string{"[CLOCK_ANCHOR] v=1 pid=1 mono_ns=5 wall_ns=5\n"})
	many(t, c.reader, "/x/b.log", []string{"[CLOCK_ANCHOR] v=1 pid=1 mono_ns=6 wall_ns=6\n"})
	assert.Equal(t, uint64(2), c.reader.blocks)
	assert.False(t, c.reader.disorder)

	// One that comes far too late is filed, and the poll is no longer in order.
	many(t, c.reader, "/x/c.log", []string{fmt.Sprintf("[CLOCK_ANCHOR] v=1 pid=1 mono_ns=%d wall_ns=6\n", int64(time.Hour))})
	many(t, c.reader, "/x/d.log", []string{"[CLOCK_ANCHOR] v=1 pid=1 mono_ns=7 wall_ns=6\n"})
	assert.Equal(t, uint64(4), c.reader.blocks)
	assert.True(t, c.reader.disorder)
	offsets(t.Context(), t, c)
	assert.False(t, c.reader.disorder, "the next poll begins anew")
	assert.Empty(t, c.reader.lanes)
}

// TestExpectsOthers: a file with much unread is waited for, and one that
// brings nothing of it only once.
func TestExpectsOthers(t *testing.T) {
	r := newRig(t)
	r.store()
	c, _ := checked(t, r)
	rd := c.reader
	big := r.path("big.log")
	require.NoError(t, os.WriteFile(big, make([]byte, 2*muchUnread), 0o600))
	r.write(r.path("small.log"), "x")
	rd.expect()
	scope := container.ScopeKey(big)
	assert.Equal(t, map[string]bool{big: true}, rd.lanes[scope].expected)
	rd.endOrder()
	assert.Equal(t, map[string]int64{big: 2 * muchUnread}, rd.inVain)
	rd.expect()
	assert.Empty(t, rd.lanes[scope].expected)
	assert.True(t, rd.lanes[scope].others, "the small one may bring something")
	rd.endOrder()
	r.write(big, "more")
	rd.expect()
	assert.Len(t, rd.lanes[scope].expected, 1)
	require.NoError(t, rd.consume(t.Context(), nil, map[string]any{"log.file.path": big}, 1, []int64{0}))
	assert.Empty(t, rd.lanes[scope].expected, "it has shown up")
}

// TestMuchOfLittle: what waits for the end of the poll is bounded.
func TestMuchOfLittle(t *testing.T) {
	r := newRig(t)
	r.store()
	c, _ := checked(t, r)
	block := []byte(strings.Repeat("x", 1<<20) + "\n")
	for i := range 40 {
		require.NoError(t, c.reader.consume(t.Context(), [][]byte{block}, map[string]any{"log.file.path": fmt.Sprintf("/x/%d.log", i)}, 1, []int64{0, 100}))
		require.LessOrEqual(t, c.reader.queuedBytes, maxQueued)
	}
	assert.Positive(t, c.reader.blocks)
}
