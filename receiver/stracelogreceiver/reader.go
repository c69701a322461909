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

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/receiver"
	"go.uber.org/zap"

	"github.com/phasecol/phasecol/internal/stracepdata"
	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/delivery"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/fileclock"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/metadata"
)

// batchSpans is how many spans are handed on together while reading. At the
// end of a poll whatever there is goes.
const batchSpans = 2048

// reader turns blocks of lines into traces and hands them on. fileconsumer
// calls it from one goroutine per file.
type reader struct {
	cfg    *Config
	logger *zap.Logger
	format container.Format
	now    func() time.Time
	host   func() strace.HostClock
	tel    *telemetry

	// mu guards all below. It is held while the next component is waited for,
	// which stops all reading: that is the back-pressure.
	mu      sync.Mutex
	asm     *strace.Assembler
	scanner *strace.Scanner
	writer  *stracepdata.Writer
	outbox  *delivery.Outbox
	files   *files
	drops   map[dropKey]strace.Drops
	// ctx bounds deliveries: the receiver's life, then its shutdown.
	ctx      context.Context //nolint:containedctx // fileconsumer's own ends too early to deliver a last time
	flushAll bool
}

type dropKey struct {
	scope string
	pid   int32
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
	tel, err := newTelemetry(set)
	if err != nil {
		return nil, err
	}
	r := &reader{
		cfg: cfg, logger: set.Logger, format: cfg.format(), now: time.Now, tel: tel, ctx: ctx,
		files: newFiles(cfg.format()), drops: map[dropKey]strace.Drops{},
	}
	asmConfig, err := cfg.assembler(hostName)
	if err != nil {
		return nil, err
	}
	if slices.Contains(asmConfig.ClockSources, strace.ClockHost) && !fileclock.OwnTimeNamespace() {
		r.host = fileclock.Host
	}
	asmConfig.Emit = func(t *strace.Trace) { r.writer.Append(t) }
	names := strace.NewNames()
	r.scanner = strace.NewScanner(names)
	r.asm, err = strace.NewAssembler(asmConfig, names)
	if err != nil {
		return nil, err
	}
	r.writer = stracepdata.NewWriter(stracepdata.Options{
		ScopeName: metadata.ScopeName, ScopeVersion: set.BuildInfo.Version,
		Resource: func(scope *strace.Scope, pid int32, attrs pcommon.Map) { r.resource(hostName, scope, pid, attrs) },
	})
	r.outbox = delivery.NewOutbox(tel.observed(next), cfg.RetryOnFailure, tel.deliveryObserver(set.Logger))
	return r, nil
}

// assembler translates the settings.
func (c *Config) assembler(hostName string) (strace.Config, error) {
	sources, err := c.Clock.sources()
	if err != nil {
		return strace.Config{}, err
	}
	zone, err := c.Clock.zone()
	if err != nil {
		return strace.Config{}, err
	}
	onNone := strace.NoneRefuse
	if c.Clock.OnNone == "read_time" {
		onNone = strace.NoneReadTime
	}
	return strace.Config{
		Host: hostName, Linger: c.Linger, MaxOpen: c.MaxOpen, StitchWait: c.StitchWait, HoldForPoll: true,
		ClockSources: sources, OnNone: onNone, TimeZone: zone,
		MaxInvocations: c.Limits.Invocations, MaxRuns: c.Limits.Runs, MaxBytes: c.Limits.Bytes,
		MaxProcesses: c.Limits.Processes, MaxScopes: c.Limits.Scopes,
	}, nil
}

// consume is fileconsumer's callback: tokens are blocks of whole lines. It
// never fails: what is read is filed, and what cannot be delivered waits.
func (r *reader) consume(_ context.Context, tokens [][]byte, attributes map[string]any, _ int64, offsets []int64) error {
	path, _ := attributes["log.file.path"].(string)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	f := r.files.get(path, now, r.logger)
	if r.host != nil {
		r.asm.SetHostClock(r.host())
	}
	for _, block := range tokens {
		r.block(f, block, now.UnixNano())
		if r.writer.Len() >= batchSpans {
			r.flush()
		}
	}
	f.offset = offsets[len(tokens)]
	r.tel.publish(r.asm.Stats())
	r.files.report(now, r.tel, r.logger)
	return nil
}

func (r *reader) block(f *file, block []byte, now int64) {
	scope := r.asm.Scope(f.scope, now)
	for len(block) > 0 {
		line := block
		if i := bytes.IndexByte(block, '\n'); i >= 0 {
			line, block = block[:i], block[i+1:]
		} else {
			block = nil
		}
		bare, ok := r.format.Unwrap(line)
		if !ok {
			r.tel.skippedLine(r.ctx, "not_container_format")
			continue
		}
		text, whole, dropped := f.join.Add(bare)
		if dropped > 0 {
			r.tel.skippedLine(r.ctx, "piece_too_long")
		}
		if whole {
			r.line(f, scope, text, bare.Time, now)
		}
	}
}

// line files what one bare line holds. stamped is when a container runtime
// read it, Unix ns, or 0.
func (r *reader) line(f *file, scope *strace.Scope, text []byte, stamped, now int64) {
	r.scanner.Reset(text, true)
	for {
		switch r.scanner.Next() {
		case strace.KindNone:
			return
		case strace.KindRecord:
			rec := &r.scanner.Record
			if f.notedPID != rec.PID {
				f.notedPID = rec.PID
				r.asm.NoteFile(scope, rec.PID, f.clock, now)
				r.files.owns(f, rec.PID)
			}
			if stamped != 0 {
				r.sample(scope, rec, stamped, now)
			}
			r.asm.Add(scope, rec, now)
		case strace.KindAnchor:
			r.asm.NoteAnchor(scope, r.scanner.Anchor, now)
		case strace.KindReady:
			r.asm.NoteReady(scope, r.scanner.Ready, now)
		case strace.KindDrops:
			r.noteDrops(scope, r.scanner.Drops, now)
		case strace.KindBad:
			r.asm.NoteBad(r.scanner.Outcome)
		}
	}
}

// sample pairs the container runtime's stamp with the monotonic time at which
// the line was printed, or at least the span had ended.
func (r *reader) sample(scope *strace.Scope, rec *strace.Record, stamped, now int64) {
	mono := rec.Mono
	if mono == 0 {
		if rec.Device {
			return
		}
		mono = rec.End()
	}
	r.asm.NoteSample(scope, rec.PID, mono, stamped, now)
}

// noteDrops counts what a runtime says it lost since it last said so.
func (r *reader) noteDrops(scope *strace.Scope, d strace.Drops, now int64) {
	r.asm.NoteDrops(scope, d, now)
	key := dropKey{scope.Key, d.PID}
	before := r.drops[key]
	if d.Total < before.Total {
		before = strace.Drops{} // another process took the number
	}
	if len(r.drops) >= r.cfg.Limits.Processes {
		clear(r.drops)
	}
	r.drops[key] = d
	if d.Total == before.Total {
		return
	}
	r.tel.hostDrops(r.ctx, before, d)
	r.logger.Warn("the runtime lost records before they reached the log; spans of this process may be incomplete",
		zap.String("scope", scope.Key), zap.Int32("pid", d.PID), zap.Uint64("new", d.Total-before.Total), zap.Uint64("total", d.Total))
}

// resource writes what the processes of a scope share.
func (r *reader) resource(hostName string, scope *strace.Scope, pid int32, attrs pcommon.Map) {
	attrs.PutStr("service.name", r.cfg.ServiceName)
	attrs.PutStr("host.name", hostName)
	f := r.files.owner(scope.Key, pid)
	if f == nil {
		return
	}
	for _, a := range [...]struct{ key, value string }{
		{"k8s.namespace.name", f.identity.Namespace},
		{"k8s.pod.name", f.identity.Pod},
		{"k8s.pod.uid", f.identity.PodUID},
		{"k8s.container.name", f.identity.Container},
		{"container.id", f.identity.ContainerID},
	} {
		if a.value != "" {
			attrs.PutStr(a.key, a.value)
		}
	}
	if n, ok := strace.ParseInt([]byte(f.identity.RestartCount)); ok {
		attrs.PutInt("k8s.container.restart_count", n)
	}
	if r.cfg.IncludeFilePath {
		attrs.PutStr("log.file.path", f.path)
	}
}

// flush hands on what is complete.
func (r *reader) flush() {
	if r.writer.Len() > 0 {
		r.outbox.Queue(r.writer.Take())
	}
	r.outbox.Send(r.ctx)
}

// endPoll is called when every file has been read to its end. With snapshot
// it returns all that is pending.
func (r *reader) endPoll(snapshot bool) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if r.host != nil {
		r.asm.SetHostClock(r.host())
	}
	r.asm.EndPoll(now.UnixNano())
	if r.flushAll {
		r.asm.Flush(now.UnixNano())
	}
	r.flush()
	r.files.endPoll(now)
	r.tel.publish(r.asm.Stats())
	r.files.report(now, r.tel, r.logger)
	if !snapshot {
		return nil, nil
	}
	batches, err := r.outbox.Marshal()
	if err != nil {
		return nil, err
	}
	return r.asm.AppendSnapshot(appendBatches(nil, batches)), nil
}

func (r *reader) restore(snapshot []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	batches, rest, err := cutBatches(snapshot)
	if err != nil {
		return err
	}
	if err := r.outbox.Unmarshal(batches); err != nil {
		return err
	}
	return r.asm.Restore(rest, r.now().UnixNano())
}

// stop lets the last deliveries go on until final ends; the context that
// bounded them so far has ended, so that nobody holds the lock for long. With
// flushAll the next end of a poll sends on the incomplete as well.
func (r *reader) stop(final context.Context, flushAll bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx, r.flushAll = final, flushAll
}

// close ends the reader. Without storage there is nowhere to keep what the
// next component has not accepted.
func (r *reader) close(ctx context.Context, drop bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if drop {
		r.outbox.Drop(ctx)
	}
	r.tel.shutdown()
}

func (r *reader) noteSnapshot(ctx context.Context, size int, took time.Duration) {
	r.tel.snapshot(ctx, size, took)
}
