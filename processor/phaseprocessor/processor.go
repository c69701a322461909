// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/engine"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/hold"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/index"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/join"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
)

// maxGroups bounds the join groups: a gateway sees one for each pod or host.
const maxGroups = 4096

// maxFuture is how far ahead of this host's clock a host run may end and still
// be believed: one wrong year must not push all others out of the index.
const maxFuture = time.Hour

// phaseProcessor derives phases. Host spans leave in the call that brought
// them, and its error is theirs. Request spans are held until their request is
// whole; see release.go for how they leave.
type phaseProcessor struct {
	cfg     *Config
	next    consumer.Traces
	logger  *zap.Logger
	tables  []*engine.Table
	ident   *phases.Identifier
	pieces  *phases.Pieces
	held    *hold.Store
	tel     *telemetry
	batches sync.Pool
	now     func() time.Time

	// mu guards history, joiner and what it joins with. It is never held while
	// calling anything else.
	mu      sync.Mutex
	history *phases.History
	joiner  *join.Joiner

	releaser
	// hostSeen counts calls with host spans: without new ones no request can
	// have become ready.
	hostSeen atomic.Uint64
}

func newProcessor(set processor.Settings, cfg *Config, next consumer.Traces) (*phaseProcessor, error) {
	tables, err := cfg.tables()
	if err != nil {
		return nil, err
	}
	history, err := phases.NewHistory(cfg.MaxProcesses)
	if err != nil {
		return nil, err
	}
	callables, err := join.NewCallables(cfg.Callable.Names, cfg.MaxProcesses)
	if err != nil {
		return nil, err
	}
	held, err := hold.New(cfg.Join.MaxRequests, cfg.Join.MaxRequestSpans, cfg.Join.Wait)
	if err != nil {
		return nil, err
	}
	embed := cfg.Join.Embed
	if !cfg.Join.Enabled {
		embed = 0
	}
	p := &phaseProcessor{
		cfg: cfg, next: next, logger: set.Logger, tables: tables, history: history, held: held,
		ident:  phases.NewIdentifier(cfg.Join.GroupBy),
		pieces: phases.NewPieces(cfg.Join.MaxPieceSpans),
		now:    time.Now,
		joiner: &join.Joiner{
			Settings: join.Settings{
				RemoteClockError: cfg.Join.RemoteClockError.Seconds(),
				MaxLinks:         cfg.Join.MaxLinks,
				Embed:            embed,
			},
			Index: index.New(index.Settings{
				MaxRuns: cfg.Join.MaxRuns, MaxGroups: maxGroups, Retention: cfg.Join.Retention.Nanoseconds(),
			}),
			Callables: callables,
			Bodies:    join.NewBodies(embed, cfg.Join.MaxEmbedSpans),
		},
	}
	p.batches.New = func() any { return phases.NewBatch(p.pieces) }
	if p.tel, err = newTelemetry(set.TelemetrySettings, p.sizes); err != nil {
		return nil, fmt.Errorf("making the telemetry: %w", err)
	}
	return p, nil
}

// sizes reports the stores for the gauges.
func (p *phaseProcessor) sizes() (s storeSizes) {
	s.requests, s.requestSpans = p.held.Size()
	p.mu.Lock()
	defer p.mu.Unlock()
	s.runs, s.groups = p.joiner.Index.Runs(), p.joiner.Index.Groups()
	return s
}

// Capabilities says that spans are changed in place.
func (*phaseProcessor) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

// Start begins to let held requests go.
func (p *phaseProcessor) Start(context.Context, component.Host) error {
	p.startReleasing()
	return nil
}

// Shutdown lets go of everything that is held.
func (p *phaseProcessor) Shutdown(ctx context.Context) error {
	p.stopReleasing()
	p.flush(ctx)
	p.tel.shutdown()
	return nil
}

// ConsumeTraces gives the spans of td their phases and passes them on, all but
// request spans that have to wait. When it fails, nothing of td was kept and td
// holds all its spans again.
func (p *phaseProcessor) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	batch := p.batches.Get().(*phases.Batch)
	defer func() {
		batch.Reset()
		p.batches.Put(batch)
	}()
	var requests hold.Taker
	others := p.sort(td, batch, &requests)
	p.hostPhases(ctx, batch)
	p.tel.spans(ctx, batch.Len(), requests.Spans, others)

	direct := len(requests.Entries) > 0 && p.cfg.Join.Wait == 0
	if len(requests.Entries) > 0 && !direct {
		ok, err := p.makeRoom(ctx, len(requests.Entries), requests.Spans)
		if err != nil {
			requests.Restore(td)
			return err
		}
		direct = !ok
	}
	if direct {
		p.finish(ctx, requests.Entries, td, releaseDirect)
		return p.next.ConsumeTraces(ctx, td)
	}
	if batch.Len()+others > 0 || len(requests.Entries) == 0 {
		if err := p.next.ConsumeTraces(ctx, td); err != nil {
			p.held.Cancel(len(requests.Entries), requests.Spans)
			requests.Restore(td)
			return err
		}
	}
	if len(requests.Entries) > 0 {
		p.held.Add(requests.Entries, p.now())
	}
	return nil
}

// hostPhases works out the host side of a call and remembers its runs.
func (p *phaseProcessor) hostPhases(ctx context.Context, batch *phases.Batch) {
	if batch.Len() == 0 {
		return
	}
	now := p.now()
	batch.Build(now.UnixNano())
	wanted := p.remember(batch, now)
	for i := range batch.Invs {
		batch.Invs[i].Write()
	}
	batch.WriteSteps()
	p.keepBodies(batch, wanted)
	p.hostSeen.Add(1)
	p.tel.host(ctx, batch)
}

// remember puts the call's runs into the stores, under the one lock that the
// host side takes. It returns the invocations whose spans are to be kept.
func (p *phaseProcessor) remember(batch *phases.Batch, now time.Time) (wanted []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range batch.Invs {
		v := &batch.Invs[i]
		proc := &batch.Procs[v.Proc]
		if v.Past || v.Bad {
			continue
		}
		p.history.Fill(v, proc)
		fresh := p.addRun(batch, v, now)
		v.Callable = p.joiner.Callables.Name(proc.Key, v.HID, fresh)
		if fresh {
			wanted = append(wanted, i)
		}
	}
	if !p.cfg.Join.Enabled {
		return nil
	}
	for i := range batch.Steps {
		if s := &batch.Steps[i]; !s.Past && !s.Bad && s.Host.End <= now.Add(maxFuture).UnixNano() {
			p.joiner.Index.AddStep(&batch.Procs[s.Proc], s.ID, s.Host, now.UnixNano())
		}
	}
	for i := range batch.Exts {
		e := &batch.Exts[i]
		p.joiner.Index.AddExt(&batch.Procs[e.Proc], e, now.UnixNano())
	}
	return p.joiner.Bodies.Choose(batch, wanted)
}

// addRun puts one run into the index and says whether it was new.
func (p *phaseProcessor) addRun(batch *phases.Batch, v *phases.Invocation, now time.Time) bool {
	if !p.cfg.Join.Enabled {
		return true
	}
	if v.Host.End > now.Add(maxFuture).UnixNano() {
		return false
	}
	proc := &batch.Procs[v.Proc]
	r := index.Run{
		Trace: v.Trace, ID: v.ID, Host: v.Host, Device: v.Device,
		Err: v.ClockErr, Proc: proc.Key, HID: v.HID,
	}
	r.Step, r.StepProc = batch.StepOf(v)
	return p.joiner.Index.AddRun(proc, r, now.UnixNano())
}

// keepBodies copies the spans of the wanted invocations, outside of the lock.
func (p *phaseProcessor) keepBodies(batch *phases.Batch, wanted []int) {
	if len(wanted) == 0 {
		return
	}
	bodies := batch.Bodies(wanted)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, k := range wanted {
		v := &batch.Invs[k]
		p.joiner.Bodies.Put(v, &batch.Procs[v.Proc], bodies[i], v.Size())
	}
}
