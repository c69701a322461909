// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

var errRefused = errors.New("refused")

func alwaysRefuse(context.Context, ptrace.Traces) error { return errRefused }

// TestRestartKeepsWhatIsOpen: an invocation that lies on both sides of a
// restart is one trace, and no offset is read twice.
func TestRestartKeepsWhatIsOpen(t *testing.T) {
	r := newRig(t)
	r.store()
	l := newLog(7)
	path := r.path("pods", "a_p-0_u1", "c", "0.log")
	l.invocation(1, 3)
	l.children(2, 3)
	r.write(path, dress(l.take()))
	r.start()
	r.await(4)
	r.awaitRead(7)
	r.stop()
	assert.Len(t, r.next.spans(), 4, "what is open is kept, not sent on")

	l.root(2)
	r.write(path, dress(l.take()))
	r.start()
	spans := r.await(8)
	assert.Len(t, spans, 8)
	assert.Zero(t, incomplete(spans))
	_, traces := ids(spans)
	assert.Equal(t, 2, traces)
	assert.Equal(t, "resuming", resumed(r))
	for _, s := range spans {
		assert.Equal(t, "p-0", s.resource["k8s.pod.name"])
		assert.Equal(t, "record", s.attrs["strace.clock.source"])
	}
}

func resumed(r *rig) string {
	if strings.Contains(messages(r.logs), "Resuming from previously known offset(s)") {
		return "resuming"
	}
	return "from the start"
}

// dress makes CRI lines of raw ones. They all have one stamp, which is later
// than any of them was printed, and no anchor.
func dress(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "CLOCK_ANCHOR") {
			b.WriteString(cri(time.Unix(0, anchorWall+60e9), "stderr", "F", strings.TrimSuffix(line, "\n")))
		}
	}
	return b.String()
}

// TestRestoredIdentityNeedsNoFile: spans that were pending have their
// resource even when the file is gone.
func TestRestoredIdentityNeedsNoFile(t *testing.T) {
	r := newRig(t)
	r.store()
	r.cfg.IncludeFilePath = true
	l := newLog(7)
	path := r.path("pods", "a_p-0_u1", "c", "0.log")
	l.children(1, 2)
	r.write(path, dress(l.take()))
	r.start()
	r.awaitRead(2)
	r.stop()
	require.NoError(t, os.RemoveAll(r.dir))
	r.cfg.MaxOpen = 30 * time.Millisecond
	r.start()
	spans := r.await(2)
	for _, s := range spans {
		assert.Equal(t, "u1", s.resource["k8s.pod.uid"])
		assert.Equal(t, path, s.resource["log.file.path"])
		assert.Equal(t, true, s.attrs["strace.incomplete"])
	}
}

// TestRestartKeepsPieces: a record that a container runtime cut in two is
// whole when the Collector restarts between the pieces.
func TestRestartKeepsPieces(t *testing.T) {
	r := newRig(t)
	r.store()
	path := r.path("pods", "a_p-0_u1", "c", "0.log")
	l := newLog(7)
	l.root(1)
	record := strings.TrimSuffix(strings.SplitAfterN(l.take(), "\n", 2)[1], "\n")
	at := time.Unix(0, anchorWall+60e9)
	r.write(path, cri(at, "stderr", "P", record[:60])+cri(at, "stdout", "F", "[chip_process pid=7 dev=5] ready"))
	r.start()
	require.Eventually(t, func() bool { return r.metric("snapshot_size") > 0 }, waitFor, tick)
	r.stop()
	r.write(path, cri(at, "stderr", "F", record[60:]))
	r.start()
	spans := r.await(1)
	require.Len(t, spans, 1)
	assert.Equal(t, "5", spans[0].resource["hw.id"])
}

// TestWithoutStorageStopSendsAll as it is.
func TestWithoutStorageStopSendsAll(t *testing.T) {
	r := newRig(t)
	l := newLog(7)
	l.children(1, 3)
	r.write(r.path("host.log"), l.take())
	r.start()
	r.awaitRead(3)
	r.stop()
	spans := r.next.spans()
	require.Len(t, spans, 3)
	assert.Equal(t, 3, incomplete(spans))
}

// TestStopWhileConsumerBlocks: shutdown ends though nothing is accepted, and
// after the restart everything arrives once.
func TestStopWhileConsumerBlocks(t *testing.T) {
	r := newRig(t)
	r.store()
	l := newLog(7)
	for inv := 1; inv <= 1000; inv++ {
		l.invocation(inv, 4)
	}
	path := r.path("host.log")
	r.write(path, l.take())
	blocked := make(chan struct{}, 1)
	r.next.setAnswer(func(ctx context.Context, _ ptrace.Traces) error {
		select {
		case blocked <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return ctx.Err()
	})
	r.start()
	<-blocked
	r.stop()
	assert.Empty(t, r.next.spans())

	r.next.setAnswer(nil)
	l.invocation(1001, 4)
	r.write(path, l.take())
	r.start()
	spans := r.await(5005)
	assert.Len(t, spans, 5005)
	spanIDs, traces := ids(spans)
	assert.Equal(t, 5005, spanIDs)
	assert.Equal(t, 1001, traces)
	assert.Zero(t, incomplete(spans))
}

// TestRefusalsHoldReading: while the next component refuses, nothing more is
// read, metrics can be scraped and show it; then all arrives once.
func TestRefusalsHoldReading(t *testing.T) {
	r := newRig(t)
	l := newLog(7)
	path := r.path("host.log")
	l.invocation(1, 3)
	r.write(path, l.take())
	r.next.setAnswer(alwaysRefuse)
	r.start()
	require.Eventually(t, func() bool { return r.metric("delivery_refusals") > 3 }, waitFor, tick)
	for inv := 2; inv <= 100; inv++ {
		l.invocation(inv, 3)
	}
	more := l.take()
	r.write(path, more)
	r.awaitMetric("bytes_behind", int64(len(more)))
	assert.Equal(t, int64(4), r.metric("records"), "reading waits")
	assert.Positive(t, r.logs.FilterMessage("the next component refused spans; reading waits and tries again").Len())
	r.next.setAnswer(nil)
	spans := r.await(400)
	assert.Len(t, spans, 400)
	r.awaitMetric("bytes_behind", 0)
	assert.Zero(t, r.metric("spans_dropped"))
}

// TestPermanentErrors are counted and do not hold up what follows.
func TestPermanentErrors(t *testing.T) {
	r := newRig(t)
	var refuse atomic.Bool
	refuse.Store(true)
	r.next.setAnswer(func(context.Context, ptrace.Traces) error {
		if refuse.Load() {
			return consumererror.NewPermanent(errRefused)
		}
		return nil
	})
	l := newLog(7)
	l.invocation(1, 3)
	path := r.path("host.log")
	r.write(path, l.take())
	r.start()
	r.awaitMetric("spans_dropped", 4)
	assert.Equal(t, int64(4), r.metric("spans_dropped", "permanent_error"))
	refuse.Store(false)
	l.invocation(2, 3)
	r.write(path, l.take())
	assert.Len(t, r.await(4), 4)
}

// TestStopWithoutStorageCountsTheLost: there is nowhere to keep them.
func TestStopWithoutStorageCountsTheLost(t *testing.T) {
	r := newRig(t)
	r.next.setAnswer(func(ctx context.Context, _ ptrace.Traces) error {
		<-ctx.Done()
		return ctx.Err()
	})
	l := newLog(7)
	l.invocation(1, 3)
	r.write(r.path("host.log"), l.take())
	recv, err := NewFactory().CreateTraces(t.Context(), r.settings(), r.cfg, r.next)
	require.NoError(t, err)
	require.NoError(t, recv.Start(t.Context(), r.host))
	r.awaitRead(4)
	// The Collector gives up at once.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, recv.Shutdown(ctx))
	require.NoError(t, recv.Shutdown(ctx), "a second time does nothing")
	assert.Equal(t, int64(4), r.metric("spans_dropped", "shutdown"))
	require.NoError(t, r.tel.Shutdown(t.Context()))
}

func TestStartErrors(t *testing.T) {
	nop := component.MustNewID("nop")
	for _, tt := range []struct {
		name string
		host component.Host
		want string
	}{
		{"no such extension", componenttest.NewNopHost(), `storage: extension "nop" is not among service::extensions`},
		{"no storage", &hostWith{map[component.ID]component.Component{nop: nopComponent{}}}, `storage: extension "nop" is no storage extension`},
		{"broken", &hostWith{map[component.ID]component.Component{nop: storeOf{err: errRefused}}}, `opening storage "nop": refused`},
		{"unreadable", &hostWith{map[component.ID]component.Component{nop: storeOf{client: &memory{failGet: true}}}}, "loading what was pending: refused"},
		{"damaged", &hostWith{map[component.ID]component.Component{nop: storeOf{client: &memory{kept: map[string][]byte{pendingKey: {pendingVersion, 9}}}}}}, "restoring what was pending (remove the receiver's storage to start without it)"},
		{"other version", &hostWith{map[component.ID]component.Component{nop: storeOf{client: &memory{kept: map[string][]byte{pendingKey: {77}}}}}}, "written by another version"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.cfg.Storage = &nop
			recv, err := NewFactory().CreateTraces(t.Context(), r.settings(), r.cfg, r.next)
			require.NoError(t, err)
			require.ErrorContains(t, recv.Start(t.Context(), tt.host), tt.want)
			require.NoError(t, recv.Shutdown(t.Context()))
			require.NoError(t, r.tel.Shutdown(t.Context()))
		})
	}
}

type nopComponent struct {
	component.StartFunc
	component.ShutdownFunc
}

// storeOf is a storage extension with one client.
type storeOf struct {
	nopComponent
	client storage.Client
	err    error
}

func (s storeOf) GetClient(context.Context, component.Kind, component.ID, string) (storage.Client, error) {
	return s.client, s.err
}

// memory is a storage client that keeps each transaction.
type memory struct {
	kept      map[string][]byte
	batches   []map[string][]byte
	failGet   bool
	failBatch bool
}

func (m *memory) Get(_ context.Context, key string) ([]byte, error) {
	if m.failGet {
		return nil, errRefused
	}
	return m.kept[key], nil
}

func (m *memory) Set(ctx context.Context, key string, value []byte) error {
	return m.Batch(ctx, storage.SetOperation(key, value))
}

func (m *memory) Delete(ctx context.Context, key string) error {
	return m.Batch(ctx, storage.DeleteOperation(key))
}

func (m *memory) Batch(_ context.Context, ops ...*storage.Operation) error {
	if m.failBatch {
		return errRefused
	}
	done := map[string][]byte{}
	for _, op := range ops {
		done[op.Key] = op.Value
	}
	m.batches = append(m.batches, done)
	return nil
}

func (*memory) Close(context.Context) error { return nil }

// checked is a checkpoint over memory, with its reader.
func checked(t *testing.T, r *rig) (*checkpoint, *memory) {
	t.Helper()
	rd, err := newReader(t.Context(), r.settings(), r.cfg, r.next)
	require.NoError(t, err)
	tel := r.tel
	t.Cleanup(func() {
		rd.close(context.Background())                         //nolint:usetesting // the test's own has ended at cleanup
		require.NoError(t, tel.Shutdown(context.Background())) //nolint:usetesting // as above
	})
	m := &memory{}
	return &checkpoint{client: m, durable: true, reader: rd}, m
}

func offsets(ctx context.Context, t *testing.T, c *checkpoint) {
	t.Helper()
	require.NoError(t, c.Batch(ctx, storage.SetOperation(offsetsKey, []byte("o"))))
}

// feedText passes text to the reader as the file reader would.
func feedText(t *testing.T, c *checkpoint, path, text string, from int64) {
	t.Helper()
	require.NoError(t, c.reader.consume(t.Context(), [][]byte{[]byte(text)}, map[string]any{"log.file.path": path}, 1, []int64{from, from + int64(len(text))}))
}

// TestOneTransaction: offsets and what is pending are written together, and
// what did not change is not written again.
func TestOneTransaction(t *testing.T) {
	r := newRig(t)
	r.store()
	c, m := checked(t, r)
	l := newLog(7)
	l.children(1, 2)
	feedText(t, c, "/x/host.log", l.take(), 0)
	offsets(t.Context(), t, c)
	require.Len(t, m.batches, 1)
	assert.Equal(t, []byte("o"), m.batches[0][offsetsKey])
	first := m.batches[0][pendingKey]
	assert.NotEmpty(t, first)

	offsets(t.Context(), t, c)
	assert.Len(t, m.batches[1], 1, "nothing new is pending")

	m.failBatch = true
	require.ErrorIs(t, c.Batch(t.Context(), storage.SetOperation(offsetsKey, nil)), errRefused)
	m.failBatch = false
	offsets(t.Context(), t, c)
	assert.Equal(t, first, m.batches[2][pendingKey], "what failed is written again")

	require.NoError(t, c.Set(t.Context(), "other", nil))
	require.NoError(t, c.Delete(t.Context(), "other"))
	require.NoError(t, c.Batch(t.Context(), storage.SetOperation("other", nil)))
	assert.Len(t, m.batches, 6, "other keys go straight through")
}

// TestInterruptedPollStoresNoPackedOffset: fileconsumer takes a compressed
// file for read when it is stopped in the middle.
func TestInterruptedPollStoresNoPackedOffset(t *testing.T) {
	r := newRig(t)
	r.store()
	c, m := checked(t, r)
	feedText(t, c, "/x/host.log.gz", newLog(7).take(), 0)
	c.reader.files.byPath["/x/host.log.gz"].packed = true
	c.reader.stop(t.Context())
	offsets(t.Context(), t, c)
	assert.Empty(t, m.batches)
}

// TestInterruptedPollIsNoEnd: what would leave at the end of a poll does not
// when reading was broken off, since its other half may be unread.
func TestInterruptedPollIsNoEnd(t *testing.T) {
	r := newRig(t)
	r.store()
	c, m := checked(t, r)
	l := newLog(7)
	l.invocation(1, 2)
	feedText(t, c, "/x/host.log", l.take(), 0)
	now := time.Now()
	c.reader.now = func() time.Time { return now.Add(time.Hour) }
	c.reader.stop(t.Context())
	offsets(t.Context(), t, c)
	assert.Empty(t, r.next.spans())
	require.Len(t, m.batches, 1)
	assert.NotEmpty(t, m.batches[0][pendingKey])
}

// TestEveryCutSnapshotIsRefused and none makes the receiver panic.
func TestEveryCutSnapshotIsRefused(t *testing.T) {
	r := newRig(t)
	r.store()
	r.cfg.IncludeFilePath = true
	path := r.path("pods", "a_p-0_u1", "c", "0.log")
	r.write(path, strings.Repeat("x", 2000))
	c, m := checked(t, r)
	l := newLog(7)
	l.invocation(1, 2)
	l.children(2, 2)
	feedText(t, c, path, dress(l.take())+cri(time.Unix(0, anchorWall), "stderr", "P", "piece"), 0)
	r.next.setAnswer(alwaysRefuse)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	c.reader.ctx = gone
	now := time.Now()
	for i := range 3 { // the invocation leaves, and stays in the outbox
		c.reader.now = func() time.Time { return now.Add(time.Duration(i) * time.Second) }
		offsets(t.Context(), t, c)
	}
	snapshot := m.batches[2][pendingKey]
	require.NotEmpty(t, snapshot)

	restored := func(b []byte) (*reader, error) {
		q := newRig(t)
		rd, err := newReader(t.Context(), q.settings(), r.cfg, &sink{})
		require.NoError(t, err)
		t.Cleanup(func() {
			rd.close(context.Background())                           //nolint:usetesting // the test's own has ended at cleanup
			require.NoError(t, q.tel.Shutdown(context.Background())) //nolint:usetesting // as above
		})
		return rd, rd.restore(b)
	}
	rd, err := restored(snapshot)
	require.NoError(t, err)
	assert.Equal(t, 1, rd.outbox.Len())
	assert.Len(t, rd.files.pieces, 1)
	assert.Len(t, rd.files.owners, 1)
	assert.Len(t, rd.files.heads, 1)
	again, err := rd.snapshot()
	require.NoError(t, err)
	assert.Equal(t, snapshot, again)
	for cut := range snapshot {
		_, err := restored(snapshot[:cut])
		require.Error(t, err, "cut at %d of %d", cut, len(snapshot))
	}
}

// TestKilledBetweenPolls plays a crash at every transaction: what storage held
// then, and the log from the offset it held, give the same spans.
func TestKilledBetweenPolls(t *testing.T) {
	l := newLog(7)
	const invocations = 12
	for inv := 1; inv <= invocations; inv++ {
		l.invocation(inv, 3)
	}
	lines := strings.SplitAfter(l.take(), "\n")
	run := func(t *testing.T, killAt int) []flatSpan {
		r := newRig(t)
		r.store()
		c, m := checked(t, r)
		now := time.Unix(1, 0)
		at := 0
		step := func(n int) {
			feedText(t, c, "/x/host.log", strings.Join(lines[at:at+n], ""), int64(at))
			at += n
			now = now.Add(13 * time.Millisecond)
			c.reader.now = func() time.Time { return now }
			require.NoError(t, c.Batch(t.Context(), storage.SetOperation(offsetsKey, fmt.Append(nil, at))))
		}
		for at < len(lines)-1 {
			if at == killAt {
				// Half of the next poll was read and delivered, and is lost.
				stored := m.batches[len(m.batches)-1]
				var held []byte
				for _, b := range m.batches {
					if p, ok := b[pendingKey]; ok {
						held = p
					}
				}
				feedText(t, c, "/x/host.log", lines[at], int64(at))
				c, m = checked(t, r)
				c.reader.now = func() time.Time { return now }
				require.NoError(t, c.reader.restore(held))
				_, err := fmt.Sscan(string(stored[offsetsKey]), &at)
				require.NoError(t, err)
				killAt = -1
			}
			step(1)
		}
		for range 5 {
			step(0)
		}
		return r.next.spans()
	}
	want := run(t, -1)
	require.Len(t, want, invocations*4)
	for killAt := 1; killAt < len(lines)-1; killAt++ {
		got := run(t, killAt)
		spanIDs, traces := ids(got)
		require.Equal(t, len(want), spanIDs, "killed at line %d", killAt)
		require.Equal(t, invocations, traces, "killed at line %d", killAt)
		require.Zero(t, incomplete(got), "killed at line %d", killAt)
	}
}
