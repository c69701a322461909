// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/cmd/stracegen/logdir"
	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
	"github.com/phasecol/phasecol/cmd/stracegen/model"
)

const (
	// rotateBytes turns a file over about once a second.
	rotateBytes = 300_000
	// keepRotated is how many rotated files stay, far more than are written
	// while the Collector is down.
	keepRotated = 150
)

// record names one record that was written, by what a span says of it.
type record struct {
	pid    int32
	inv    uint64
	tid    int64
	device bool
	name   string
	// at is the span's start in Unix nanoseconds by its process's anchor, on
	// the device clock the offset as written.
	at, dur int64
}

// writer simulates a serving process in real time until it is stopped.
type writer struct {
	stopped atomic.Bool
	written atomic.Int64
	done    chan struct{}
	// The rest is complete once done is closed.
	records map[record]int
	points  int
	removed int
}

func startWriter(t *testing.T, dir string) *writer {
	t.Helper()
	cfg := model.NewDefaultConfig()
	cfg.Requests, cfg.Rate, cfg.TimeScale = 0, 60, 0.3
	cfg.Duration = time.Hour // it is stopped before
	cfg.Output = model.MustDist("4-24")
	cfg.Seed = 7
	cfg.StartWall = time.Now().UnixNano()
	sim, err := model.New(cfg)
	require.NoError(t, err)
	f, err := logfmt.New(cfg.Generation, logfmt.Options{})
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	logs, err := logdir.New(f, logdir.Options{Dir: dir, Format: logfmt.FormatRaw, ByLine: true, RotateBytes: rotateBytes})
	require.NoError(t, err)
	w := &writer{done: make(chan struct{}), records: map[record]int{}}
	go func() {
		defer close(w.done)
		began := time.Now()
		anchors := map[int32]int64{} // wall minus monotonic
		for e := range sim.Events() {
			if w.stopped.Load() {
				break
			}
			pace(time.Until(began.Add(time.Duration(e.At - sim.Clock().Mono()))))
			r := e.Record
			if r == nil {
				continue
			}
			if r.Kind == logfmt.KindAnchor {
				anchors[r.PID] = r.AnchorWall - r.TS
			}
			if !assert.NoError(t, logs.Write(r)) {
				break
			}
			w.note(r, anchors[r.PID])
			if w.written.Load()%5000 == 0 {
				n, err := removeOld(dir)
				assert.NoError(t, err)
				w.removed += n
			}
		}
		assert.NoError(t, logs.Close())
	}()
	return w
}

// pace waits as the simulated process does between two lines.
func pace(d time.Duration) {
	if d <= time.Millisecond {
		return
	}
	<-time.After(d)
}

func (w *writer) note(r *logfmt.Record, offset int64) {
	if r.Kind != logfmt.KindSpan {
		return
	}
	w.written.Add(1)
	if r.Dur == 0 {
		w.points++
		return
	}
	key := record{pid: r.PID, inv: r.Inv, tid: r.TID, name: r.Name, at: r.TS + offset, dur: r.Dur}
	for _, a := range r.Attrs {
		if a.Key == "clk" && a.Str == "dev" {
			key.device, key.at = true, r.TS
		}
	}
	w.records[key]++
}

// stop ends the simulation in the middle of whatever it does.
func (w *writer) stop() {
	w.stopped.Store(true)
	<-w.done
}

// removeOld deletes the oldest rotated files, as log rotation does.
func removeOld(dir string) (int, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.log.*"))
	if err != nil || len(paths) <= keepRotated {
		return 0, err
	}
	written := map[string]time.Time{}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return 0, err
		}
		written[p] = info.ModTime()
	}
	slices.SortFunc(paths, func(a, b string) int { return written[a].Compare(written[b]) })
	old := paths[:len(paths)-keepRotated]
	for _, p := range old {
		if err := os.Remove(p); err != nil {
			return 0, err
		}
	}
	return len(old), nil
}
