// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

// killsByDefault keep the usual run below a minute; PHASECOL_KILLS sets more.
const killsByDefault = 20

func kills(t *testing.T) int {
	t.Helper()
	text := os.Getenv("PHASECOL_KILLS")
	if text == "" {
		return killsByDefault
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "PHASECOL_KILLS")
	return n
}

// collector is one life of the Collector.
type collector struct {
	cmd *exec.Cmd
	// err is valid once done is closed.
	err  error
	done chan struct{}
}

func start(t *testing.T, dir string) *collector {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(dir, "collector.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), harness.Binary(t), "--config", filepath.Join("testdata", "config.yaml"))
	cmd.Env = append(os.Environ(), "CRASH_DIR="+dir)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	c := &collector{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // where the test has failed; else it is gone
		<-c.done
	})
	return c
}

// kill ends the process without a chance to do anything about it.
func (c *collector) kill(t *testing.T) {
	t.Helper()
	select {
	case <-c.done:
		require.NoError(t, c.err)
		require.FailNow(t, "the collector ended by itself")
	default:
	}
	require.NoError(t, c.cmd.Process.Kill())
	<-c.done
}

// TestKill kills the Collector at random instants of its start, its catching
// up and its following, while three processes log and their files rotate. In
// the end every record is a span, and the same record was always the same
// span.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	defer func() {
		if t.Failed() {
			if log, err := os.ReadFile(filepath.Join(dir, "collector.log")); err == nil {
				t.Logf("end of the collector's log:\n%s", log[max(0, len(log)-8000):])
			}
		}
	}()
	w := startWriter(t, filepath.Join(dir, "logs"))
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	n := kills(t)
	progress := 0 // kills that came after output
	out := newOutput(filepath.Join(dir, "out"))
	for i := range n {
		c := start(t, dir)
		size := written(out.dir)
		switch {
		case i%5 == 4:
			// A collector that is killed before it has read what piled up
			// never gets ahead: every fifth may, and dies following.
			out.catchUp(t, w.written.Load())
			<-time.After(time.Duration(rnd.Int64N(int64(200 * time.Millisecond))))
		case rnd.IntN(2) == 0:
			<-time.After(50*time.Millisecond + time.Duration(rnd.Int64N(int64(1200*time.Millisecond))))
		default:
			// Right behind an export: what it exported may not be stored as
			// exported yet.
			afterExport(out.dir, rnd.IntN(4))
		}
		c.kill(t)
		if written(out.dir) > size {
			progress++
		}
	}
	w.stop()

	c := start(t, dir)
	assert.Eventually(t, func() bool {
		out.update(t)
		return out.missing(w.records) == 0
	}, 2*time.Minute, 500*time.Millisecond)
	require.Zero(t, out.missing(w.records), "records without a span, of %d: %s", len(w.records), out.describeMissing(w.records))
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	<-c.done
	require.NoError(t, c.err)
	out.update(t)

	forked, unknown := 0, 0
	for key, spans := range out.spans {
		if len(spans) != w.records[key] {
			if w.records[key] == 0 {
				unknown++
			} else {
				forked++
			}
			t.Logf("%+v: %d identifiers, written %d times", key, len(spans), w.records[key])
		}
	}
	assert.Zero(t, forked, "the same record was exported under several identifiers")
	assert.Zero(t, unknown, "a span was exported that nobody wrote")
	orphans := 0
	known := map[ids]bool{}
	for _, spans := range out.spans {
		for id := range spans {
			known[id] = true
		}
	}
	for id := range out.synthetic {
		known[id] = true
	}
	for _, parent := range out.parents {
		if !known[parent] {
			orphans++
		}
	}
	assert.Zero(t, orphans, "a span's parent was never exported")
	// What was on its way when the simulation was stopped has no root.
	assert.LessOrEqual(t, len(out.incomplete), 200)
	events := 0
	for _, n := range out.events {
		events += n
	}
	assert.Equal(t, w.points, events)
	assert.GreaterOrEqual(t, progress, n/3, "most kills hit a collector at work")

	t.Logf("%d kills (%d of them after output), %d records written, %d files removed; %d spans exported, %d distinct, %d repeated, %d batches cut by a kill, %d incomplete, 0 lost, %d forked",
		n, progress, w.written.Load(), w.removed, out.total, len(known), out.total-len(known), out.torn, len(out.incomplete), forked)
}

// afterExport returns as soon as the output has grown once more than times, or
// after two seconds.
func afterExport(dir string, times int) {
	size := written(dir)
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); {
		if now := written(dir); now != size {
			size = now
			if times--; times < 0 {
				return
			}
		}
		<-time.After(200 * time.Microsecond)
	}
}

// written is how much was exported.
func written(dir string) int64 {
	paths, err := filepath.Glob(filepath.Join(dir, "spans*.jsonl"))
	if err != nil {
		return 0
	}
	var n int64
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil {
			n += info.Size()
		}
	}
	return n
}
