// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogconnector // import "github.com/phasecol/phasecol/connector/stracelogconnector"

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/phasecol/phasecol/connector/stracelogconnector/internal/metadata"
	"github.com/phasecol/phasecol/internal/stracepdata"
	"github.com/phasecol/phasecol/internal/stracepdata/delivery"
	"github.com/phasecol/phasecol/internal/stracepdata/feed"
	"github.com/phasecol/phasecol/internal/stracepdata/marker"
	"github.com/phasecol/phasecol/internal/stracepdata/settings"
	"github.com/phasecol/phasecol/pkg/strace"
)

const (
	// batchSpans is how many spans, and the rest of the last one's trace, are
	// handed on together at most.
	batchSpans = 2048
	// tickEvery is how often time is let pass when nothing arrives.
	tickEvery = 100 * time.Millisecond
	// shutdownFlush bounds the last attempt to deliver.
	shutdownFlush = 3 * time.Second
)

// stracelogConnector turns log records into traces. What it has filed it has
// acknowledged: it lives in memory until its trace is complete.
type stracelogConnector struct {
	cfg  *Config
	tel  *telemetry
	now  func() time.Time
	wait sync.WaitGroup
	// running ends at shutdown, and with it every wait for the next component.
	running context.Context //nolint:containedctx // the timer's deliveries belong to no call
	cancel  context.CancelFunc

	// mu guards all below. It is held while the next component is waited for,
	// which holds up the log pipeline: that is the back-pressure.
	mu        sync.Mutex
	feed      *feed.Feed
	writer    *stracepdata.Writer
	outbox    *delivery.Outbox
	resources *resources
	text      []byte
	// sending bounds deliveries: the current call, else running.
	sending context.Context //nolint:containedctx // the assembler emits in the middle of a call
}

func newStracelogConnector(set connector.Settings, cfg *Config, next consumer.Traces) (*stracelogConnector, error) {
	// No host: the scope's key tells hosts apart, which a gateway has many of.
	asm, err := settings.Assembler("", &cfg.Clock, &cfg.Limits, cfg.waits())
	if err != nil {
		return nil, err
	}
	// Twice as many as scopes: one that the assembler evicts is sent on first.
	c := &stracelogConnector{cfg: cfg, now: time.Now, resources: newResources(2 * cfg.Limits.Scopes)}
	asm.Emit = c.emit
	if c.tel, err = newTelemetry(set); err != nil {
		return nil, err
	}
	if c.feed, err = feed.New(asm, c.tel.loss); err != nil {
		return nil, err
	}
	c.writer = stracepdata.NewWriter(stracepdata.Options{
		ScopeName: metadata.ScopeName, ScopeVersion: set.BuildInfo.Version, Resource: c.resource,
	})
	c.outbox = delivery.NewOutbox(next, cfg.RetryOnFailure, c.tel.deliveryObserver())
	c.running, c.cancel = context.WithCancel(context.Background())
	c.sending = c.running
	return c, nil
}

// resource keeps what the log's resource says.
func (c *stracelogConnector) resource(scope *strace.Scope, _ int32, attrs pcommon.Map) {
	c.resources.write(scope.Key, attrs)
	if _, ok := attrs.Get("service.name"); !ok {
		attrs.PutStr("service.name", c.cfg.ServiceName)
	}
}

// Capabilities: log records are only read.
func (*stracelogConnector) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// Start begins to let time pass.
func (c *stracelogConnector) Start(context.Context, component.Host) error {
	c.wait.Go(func() {
		ticker := time.NewTicker(tickEvery)
		defer ticker.Stop()
		for {
			select {
			case <-c.running.Done():
				return
			case <-ticker.C:
				c.tick()
			}
		}
	})
	return nil
}

func (c *stracelogConnector) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.feed.Assembler.Tick(c.now().UnixNano())
	c.flush()
	c.tel.publish(c.feed.Assembler.Stats())
}

// emit takes a finished trace from the assembler, and hands on what there is
// once it is a batch.
func (c *stracelogConnector) emit(t *strace.Trace) {
	if c.writer.Append(t); c.writer.Len() >= batchSpans {
		c.flush()
	}
}

// flush hands on what is complete.
func (c *stracelogConnector) flush() {
	if c.writer.Len() > 0 {
		c.outbox.Queue(c.writer.Take())
	}
	c.outbox.Send(c.sending)
}

var errWaiting = errors.New("traces of earlier log records were not accepted by the next component yet")

// ConsumeLogs files what the records hold and hands on what is complete. An
// error means that nothing was filed: what cannot be delivered now waits here.
func (c *stracelogConnector) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.running, cancel)()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.sending = ctx
	defer func() { c.sending = c.running }()
	if c.outbox.Send(ctx); c.outbox.Len() > 0 {
		c.tel.builder.ConnectorStracelogRefusedBatches.Add(ctx, 1)
		return errWaiting
	}
	now := c.now().UnixNano()
	for _, rl := range logs.ResourceLogs().All() {
		source := source{attrs: rl.Resource().Attributes()}
		for _, sl := range rl.ScopeLogs().All() {
			for _, record := range sl.LogRecords().All() {
				c.record(&source, record, now)
			}
		}
	}
	c.flush()
	c.tel.publish(c.feed.Assembler.Stats())
	return nil
}

// source is one resource of a batch.
type source struct {
	attrs pcommon.Map
	// key is the scope of the last record, whose file was file.
	key, file string
	known     bool
}

// record files one log record: its lines, with its time as a stamp.
func (c *stracelogConnector) record(from *source, record plog.LogRecord, now int64) {
	body, ok := c.body(record.Body())
	if !ok {
		c.tel.builder.ConnectorStracelogSkippedLogRecords.Add(context.Background(), 1)
		return
	}
	if marker.First(body) < 0 {
		return
	}
	if file := text(record.Attributes(), filePathKey); !from.known || file != from.file {
		from.key, from.file, from.known = scopeKey(from.attrs, record.Attributes()), file, true
		c.resources.note(from.key, from.attrs)
	}
	line := feed.Line{Scope: c.feed.Assembler.Scope(from.key, now), Ended: true, Now: now, Stamped: stamp(record)}
	for text := range bytes.SplitSeq(body, []byte("\n")) {
		line.Text = text
		c.feed.Add(&line)
	}
}

// stamp is when the line was written, as the log pipeline found out, else when
// it was first seen; Unix ns, or 0.
func stamp(record plog.LogRecord) int64 {
	if t := int64(record.Timestamp()); t > 0 {
		return t
	}
	return max(0, int64(record.ObservedTimestamp()))
}

// body is the text of a log record, valid until the next call. Of a map, as
// journald makes one, it is the message.
func (c *stracelogConnector) body(v pcommon.Value) ([]byte, bool) {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		c.text = append(c.text[:0], v.Str()...)
		return c.text, true
	case pcommon.ValueTypeBytes:
		c.text = append(c.text[:0], v.Bytes().AsRaw()...)
		return c.text, true
	case pcommon.ValueTypeMap:
		for _, key := range [...]string{"MESSAGE", "message"} {
			if m, ok := v.Map().Get(key); ok && m.Type() != pcommon.ValueTypeMap {
				return c.body(m)
			}
		}
	}
	return nil, false
}

// Shutdown sends on everything as it is: there is nowhere to keep it.
func (c *stracelogConnector) Shutdown(ctx context.Context) error {
	c.cancel()
	c.wait.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	final, cancel := context.WithTimeout(ctx, shutdownFlush)
	defer cancel()
	c.sending = final
	c.feed.Assembler.Flush(c.now().UnixNano())
	c.flush()
	c.outbox.Drop(ctx)
	c.tel.publish(c.feed.Assembler.Stats())
	c.tel.builder.Shutdown()
	return nil
}
