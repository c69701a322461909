// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/phasecol/phasecol/exporter/chrometraceexporter/internal/metadata"
)

// maxHeld is how much may wait in memory while the disk refuses writes; beyond
// it batches are refused, and the sending queue keeps them.
const maxHeld = 8 << 20

// retryInterval is how often a failed write is tried again where no flush
// interval is set.
const retryInterval = time.Second

var errNotStarted = errors.New("the exporter is not running")

// traceExporter writes batches to the live file, flushes it by the clock, and
// puts it away when it is large or old enough.
type traceExporter struct {
	cfg    *Config
	logger *zap.Logger
	stats  *stats
	now    func() time.Time
	open   func(path string) (storage, error)

	cancel context.CancelFunc
	wg     sync.WaitGroup

	// mu guards what follows. It is held for the length of one batch or write,
	// by the queue's consumer and the flush loop.
	mu      sync.Mutex
	line    *timeline // nil before start and after shutdown
	file    *traceFile
	archive *archiver
	// broken is set once a write of the current batch or tick failed, so that
	// it is not tried again for every event.
	broken error
	// warned is the number of the file for which spans too far away were
	// logged.
	warned uint64
}

func newTraceExporter(cfg *Config, set component.TelemetrySettings) (*traceExporter, error) {
	telemetry, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, fmt.Errorf("creating telemetry: %w", err)
	}
	return &traceExporter{
		cfg:    cfg,
		logger: set.Logger,
		stats:  newStats(telemetry),
		now:    time.Now,
		open:   openFile,
	}, nil
}

// start makes the live file; a folder that cannot be written to fails here.
func (e *traceExporter) start(ctx context.Context, _ component.Host) error {
	if err := os.MkdirAll(e.cfg.Directory, 0o755); err != nil { //nolint:gosec // a trace is for the people on the host to read
		return fmt.Errorf("making the directory for trace files: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	path := filepath.Join(e.cfg.Directory, e.cfg.Prefix+traceExt)
	found, err := leftover(path, e.now())
	if err != nil {
		return err
	}
	if found {
		e.stats.rotated("start")
	}
	e.file = &traceFile{path: path, open: e.open}
	if err := e.file.create(e.now()); err != nil {
		return err
	}
	e.line = newTimeline(&e.cfg.Lanes, e.file, e.now, e.advance, e.renew)
	e.archive = &archiver{
		live:       path,
		compress:   e.cfg.Compression == CompressionGzip,
		maxBackups: e.cfg.Rotation.MaxBackups,
		wake:       make(chan struct{}, 1),
		removed:    e.stats.backupsRemoved,
		failed:     e.fail,
	}
	// The collector's context ends with the start.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.cancel = cancel
	e.wg.Go(func() { e.archive.run(ctx) })
	e.wg.Go(func() { e.flushLoop(ctx) })
	e.archive.call()
	return nil
}

// shutdown writes what is left. The live file stays where it is.
func (e *traceExporter) shutdown(context.Context) error {
	if e.cancel == nil {
		return nil
	}
	e.cancel()
	e.wg.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.line == nil {
		return nil
	}
	e.broken = nil
	e.flush()
	err := errors.Join(e.broken, e.file.close())
	e.line.fileDone()
	e.report()
	e.line = nil
	e.stats.close()
	return err
}

// push draws one batch. Once it returns nil the batch's events are in the file
// or in the buffer for it; an error means that none are, and that it may be
// tried again.
func (e *traceExporter) push(_ context.Context, td ptrace.Traces) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.line == nil {
		return errNotStarted
	}
	if err := e.ready(); err != nil {
		return err
	}
	e.line.draw(td)
	if n := e.line.tally.dropped[dropFar]; n > 0 && e.warned != e.file.number {
		e.warned = e.file.number
		e.logger.Warn("spans are not drawn: they are weeks away from the others of the trace file. Is a host's clock wrong? "+
			"Replay old data through an exporter of its own, with another prefix",
			zap.Int64("spans", n), zap.Time("file's first", time.Unix(0, int64(e.line.zero.first))))
	}
	if e.cfg.FlushInterval == 0 {
		e.flush()
	}
	e.report()
	return nil
}

// ready makes sure that there is room to hold a batch's events.
func (e *traceExporter) ready() error {
	e.broken = nil
	if len(e.file.buf) >= maxHeld {
		e.flush()
	}
	return e.broken
}

// advance runs between two trees: it writes what has gathered and rotates.
func (e *traceExporter) advance() {
	if e.broken != nil {
		return
	}
	if len(e.file.buf) >= writeChunk {
		e.flush()
	}
	if e.file.size() >= int64(e.cfg.Rotation.MaxMegabytes)<<20 && !e.file.empty {
		e.rotate("size")
	}
}

// renew begins a file for spans that are too far away for the live one.
func (e *traceExporter) renew() {
	if e.broken == nil {
		e.rotate("range")
	}
}

func (e *traceExporter) flushLoop(ctx context.Context) {
	interval := e.cfg.FlushInterval
	if interval == 0 {
		interval = retryInterval
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			e.tick()
		}
	}
}

// tick flushes, and looks after the file's age and presence.
func (e *traceExporter) tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.broken = nil
	e.flush()
	if e.broken != nil {
		return
	}
	if e.file.lost() {
		e.replace()
	} else if age := e.cfg.Rotation.MaxAge; age > 0 && !e.file.empty && e.now().Sub(e.file.opened) >= age {
		e.rotate("age")
	}
	e.report()
}

// flush writes the buffer to the file, and leaves an error in broken.
func (e *traceExporter) flush() {
	began := time.Now()
	n, err := e.file.flush()
	if err != nil {
		e.broken = err
		e.fail("write", err)
		return
	}
	if n > 0 {
		e.stats.flushed(n, time.Since(began))
	}
}

// rotate puts the live file away and begins the next.
func (e *traceExporter) rotate(reason string) {
	e.flush()
	if e.broken != nil {
		return
	}
	done, err := e.file.rotate(e.now())
	if err != nil {
		e.fail("rotate", err)
	}
	if !done {
		// Go on in the same file, however large it gets, and try again later.
		e.broken = err
		return
	}
	e.stats.rotated(reason)
	e.line.fileDone()
	e.archive.call()
}

// replace begins a new file because the live one was deleted or moved.
func (e *traceExporter) replace() {
	number := e.file.number
	if err := e.file.create(e.now()); err != nil {
		e.fail("rotate", err)
	}
	if e.file.number != number {
		e.stats.rotated("missing")
		e.line.fileDone()
	}
}

func (e *traceExporter) report() {
	e.stats.drawn(&e.line.tally, e.line.reg.lanes())
}

func (e *traceExporter) fail(operation string, err error) {
	e.stats.failed(operation)
	e.logger.Error("trace file", zap.String("operation", operation), zap.Error(err))
}
