// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver // import "github.com/phasecol/phasecol/receiver/stracelogreceiver"

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/stanza/fileconsumer/matcher"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/receiver"
	"go.uber.org/zap"

	"github.com/phasecol/phasecol/internal/stracepdata"
	"github.com/phasecol/phasecol/internal/stracepdata/delivery"
	"github.com/phasecol/phasecol/internal/stracepdata/feed"
	"github.com/phasecol/phasecol/internal/stracepdata/marker"
	"github.com/phasecol/phasecol/internal/stracepdata/settings"
	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/fileclock"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/metadata"
)

// batchSpans is how many spans, and the rest of the last one's trace, are
// handed on together at most.
const batchSpans = 2048

// reader turns blocks of lines into traces and hands them on. fileconsumer
// calls it from one goroutine per file.
type reader struct {
	cfg     *Config
	logger  *zap.Logger
	format  container.Format
	mtime   bool // file times may serve as a clock
	now     func() time.Time
	host    func() strace.HostClock
	tel     *telemetry
	backlog *backlog

	// mu guards all below. It is held while the next component is waited for,
	// which stops all reading: that is the back-pressure.
	mu     sync.Mutex
	feed   *feed.Feed
	writer *stracepdata.Writer
	outbox *delivery.Outbox
	files  *files
	// lanes hold what waits for its turn, by scope; see order.go.
	lanes       map[string]*lane
	queuedBytes int
	times       logTimes
	pollBegan   time.Time
	settled     time.Time
	// disorder is set when a block came too late for its place in this poll.
	disorder bool
	// crowded is set when waiting does not make room any more in this poll.
	crowded bool
	// expecting is set once this poll's files were looked at; inVain is what
	// some of them did not bring, by path.
	expecting       bool
	inVain          map[string]int64
	matcher         *matcher.Matcher
	grace, patience time.Duration
	// ctx bounds deliveries: the receiver's life, then its shutdown.
	ctx context.Context //nolint:containedctx // fileconsumer's own ends too early to deliver a last time
	// stopping is set at shutdown: an end of a poll is none any more.
	stopping bool
	// blocks counts what was read, saved is what the last snapshot was taken of.
	blocks uint64
	saved  state
	// snapshotSize is the size of the last one.
	snapshotSize int
}

// state changes with everything that a snapshot holds.
type state struct {
	taken  bool
	blocks uint64
	stats  strace.Stats
	queue  int
}

func newReader(ctx context.Context, set receiver.Settings, cfg *Config, next consumer.Traces) (*reader, error) {
	hostName := cfg.HostName
	if hostName == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("host_name is not set and the system's cannot be read: %w", err)
		}
		hostName = name
	}
	r := &reader{
		cfg: cfg, logger: set.Logger, format: cfg.format(), now: time.Now, ctx: ctx,
		backlog: newBacklog(), files: newFiles(),
		lanes: map[string]*lane{}, inVain: map[string]int64{}, times: newLogTimes(), grace: defaultGrace, patience: min(defaultPatience, cfg.StitchWait/2),
	}
	var err error
	if r.matcher, err = matcher.New(matcher.Criteria{Include: cfg.Include, Exclude: cfg.Exclude}); err != nil {
		return nil, fmt.Errorf("include, exclude: %w", err)
	}
	asm, err := settings.Assembler(hostName, &cfg.Clock, &cfg.Limits, cfg.waits())
	if err != nil {
		return nil, err
	}
	asm.HoldForPoll = true
	asm.Emit = r.emit
	r.mtime = slices.Contains(asm.ClockSources, strace.ClockMtime)
	if slices.Contains(asm.ClockSources, strace.ClockHost) && !fileclock.OwnTimeNamespace() {
		r.host = fileclock.Host
	}
	if r.tel, err = newTelemetry(set, r.backlog.bytes); err != nil {
		return nil, err
	}
	if r.feed, err = feed.New(asm, r.tel.loss); err != nil {
		return nil, err
	}
	r.writer = stracepdata.NewWriter(stracepdata.Options{
		ScopeName: metadata.ScopeName, ScopeVersion: set.BuildInfo.Version,
		Resource: func(scope *strace.Scope, pid int32, attrs pcommon.Map) { r.resource(hostName, scope, pid, attrs) },
	})
	r.outbox = delivery.NewOutbox(r.tel.observed(next), cfg.RetryOnFailure, r.tel.deliveryObserver())
	return r, nil
}

// consume is fileconsumer's callback: tokens are blocks of whole lines. It
// never fails: what is read is filed, and what cannot be delivered waits.
func (r *reader) consume(_ context.Context, tokens [][]byte, attributes map[string]any, _ int64, offsets []int64) error {
	path, _ := attributes["log.file.path"].(string)
	now := r.now()
	info, err := os.Stat(path)
	if err != nil {
		info = nil // renamed or deleted since; it is read from its open handle
	}
	look := r.look(path, offsets[0], info, now)

	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.files.get(path, now)
	if look != nil {
		r.files.see(f, look, now)
		if r.cfg.IncludeFilePath {
			f.OnProcess = func(pid int32) { r.files.owns(f, pid, r.cfg.Limits.Processes) }
		}
	}
	f.written(info, now)
	if r.host != nil {
		r.feed.Assembler.SetHostClock(r.host())
	}
	end := offsets[len(tokens)] // the slice is fileconsumer's, and the lock may be given away
	r.files.readTo(f, end)
	r.backlog.read(path, end, f.packed, now)
	r.queue(f, tokens, offsets, now.UnixNano())
	r.tel.publish(r.feed.Assembler.Stats())
	r.backlog.report(now, r.logger)
	return nil
}

// look looks at a file where that is due, without the lock: the end of a
// compressed file takes its time.
func (r *reader) look(path string, offset int64, info os.FileInfo, now time.Time) *fileclock.Look {
	r.mu.Lock()
	due := r.files.wantsLook(path, offset, info, now, r.mtime)
	r.mu.Unlock()
	if !due {
		return nil
	}
	look, err := fileclock.Of(path, r.format, r.mtime)
	if err != nil {
		// Only these clock sources are missing then.
		r.logger.Debug("no clock from the file system", zap.String("path", path), zap.Error(err))
	}
	return &look
}

// block files the lines of one token.
func (r *reader) block(f *file, block []byte, now int64) {
	r.blocks++
	scope := r.feed.Assembler.Scope(f.scope, now)
	line := feed.Line{Scope: scope, From: &f.Source, Now: now}
	for len(block) > 0 {
		text, ended := block, false
		if i := bytes.IndexByte(block, '\n'); i >= 0 {
			text, block, ended = block[:i], block[i+1:], true
		} else {
			block = nil
		}
		line.Text, line.Ended, line.Stamped = text, ended, 0
		if r.format.Container(text) && !r.undress(f, &line) {
			continue
		}
		r.feed.Add(&line)
	}
}

// undress takes the container runtime's dress off a line; false when nothing
// is left to file yet.
func (r *reader) undress(f *file, line *feed.Line) bool {
	// Most lines of a server's log hold no marker: the stream is cheaper to
	// know than the whole line.
	raw := line.Text
	if marker.First(raw) < 0 && !container.Partial(raw) && !f.join.Pending(container.StreamOf(raw)) {
		return false
	}
	bare, ok := r.format.Unwrap(raw)
	if !ok {
		r.tel.skippedLine("not_container_format")
		return false
	}
	text, ready, ended := f.join.Add(&bare)
	line.Text, line.Ended, line.Stamped = text, ended && line.Ended, bare.Time
	return ready
}

// resource writes what the processes of a scope share.
func (r *reader) resource(hostName string, scope *strace.Scope, pid int32, attrs pcommon.Map) {
	attrs.PutStr("service.name", r.cfg.ServiceName)
	attrs.PutStr("host.name", hostName)
	if id, ok := container.IdentityOfScope(scope.Key); ok {
		for _, a := range [...]struct{ key, value string }{
			{"k8s.namespace.name", id.Namespace},
			{"k8s.pod.name", id.Pod},
			{"k8s.pod.uid", id.PodUID},
			{"k8s.container.name", id.Container},
			{"container.id", id.ContainerID},
		} {
			if a.value != "" {
				attrs.PutStr(a.key, a.value)
			}
		}
		if n, ok := strace.ParseInt([]byte(id.RestartCount)); ok {
			attrs.PutInt("k8s.container.restart_count", n)
		}
	}
	if path, ok := r.files.owners[owner{scope.Key, pid}]; ok && r.cfg.IncludeFilePath {
		attrs.PutStr("log.file.path", path)
	}
}

// emit takes a finished trace from the assembler, and hands on what there is
// once it is a batch: the end of a poll may bring a backlog's worth.
func (r *reader) emit(t *strace.Trace) {
	if r.writer.Append(t); r.writer.Len() >= batchSpans {
		r.flush()
	}
}

// flush hands on what is complete.
func (r *reader) flush() {
	if r.writer.Len() > 0 {
		r.outbox.Queue(r.writer.Take())
	}
	r.outbox.Send(r.ctx)
}

// stop lets the last deliveries go on until final ends; the context that
// bounded them so far has ended, so that nobody holds the lock for long.
func (r *reader) stop(final context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx, r.stopping = final, true
}

// close ends the reader. Without storage there is nowhere to keep what the
// next component has not accepted.
func (r *reader) close(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cfg.Storage == nil {
		r.outbox.Drop(ctx)
	}
	r.tel.publish(r.feed.Assembler.Stats())
	r.tel.shutdown()
}
