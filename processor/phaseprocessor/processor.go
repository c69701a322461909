// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/engine"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/request"
)

// phaseProcessor derives phases. Host spans leave in the call that brought
// them; its error is theirs.
type phaseProcessor struct {
	cfg     *Config
	next    consumer.Traces
	tables  []*engine.Table
	ident   *phases.Identifier
	pieces  *phases.Pieces
	tel     *telemetry
	batches sync.Pool
	now     func() time.Time

	// mu guards history.
	mu      sync.Mutex
	history *phases.History
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
	tel, err := newTelemetry(set.TelemetrySettings)
	if err != nil {
		return nil, fmt.Errorf("making the telemetry: %w", err)
	}
	p := &phaseProcessor{
		cfg: cfg, next: next, tables: tables, history: history, tel: tel,
		ident:  phases.NewIdentifier(cfg.Join.GroupBy),
		pieces: phases.NewPieces(cfg.Join.MaxPieceSpans),
		now:    time.Now,
	}
	p.batches.New = func() any { return phases.NewBatch(p.pieces) }
	return p, nil
}

// Capabilities says that spans are changed in place.
func (*phaseProcessor) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

// Start does nothing.
func (*phaseProcessor) Start(context.Context, component.Host) error { return nil }

// Shutdown does nothing.
func (p *phaseProcessor) Shutdown(context.Context) error {
	p.tel.shutdown()
	return nil
}

// ConsumeTraces gives the spans of td their phases and passes them on.
func (p *phaseProcessor) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	batch := p.batches.Get().(*phases.Batch)
	defer func() {
		batch.Reset()
		p.batches.Put(batch)
	}()
	requests := make(map[pcommon.TraceID][]request.Span)
	others := p.sort(td, batch, requests)
	p.hostPhases(ctx, batch)
	for id, spans := range requests {
		t := request.Build(id, spans)
		t.Check(p.cfg.Contract.Tolerance.Nanoseconds())
		t.Write()
		t.CopyToRepeats()
	}
	p.tel.spans(ctx, batch.Len(), 0, others)
	return p.next.ConsumeTraces(ctx, td)
}

// sort tells host spans, request spans and others apart.
func (p *phaseProcessor) sort(td ptrace.Traces, batch *phases.Batch, requests map[pcommon.TraceID][]request.Span) (others int) {
	for _, rs := range td.ResourceSpans().All() {
		tables := p.tablesFor(rs.Resource())
		proc := int32(len(batch.Procs)) //nolint:gosec // bounded by the call
		known := false
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if batch.Add(proc, span) {
					if !known {
						batch.AddProc(p.ident.Proc(rs.Resource()))
						known = true
					}
					continue
				}
				t, role := roleOf(tables, span.Name())
				if role == engine.RoleNone {
					others++
					continue
				}
				requests[span.TraceID()] = append(requests[span.TraceID()], request.Span{Span: span, Table: t, Role: role})
			}
		}
	}
	return others
}

func (p *phaseProcessor) hostPhases(ctx context.Context, batch *phases.Batch) {
	if batch.Len() == 0 {
		return
	}
	batch.Build(p.now().UnixNano())
	p.mu.Lock()
	for i := range batch.Invs {
		v := &batch.Invs[i]
		p.history.Fill(v, &batch.Procs[v.Proc])
	}
	p.mu.Unlock()
	for i := range batch.Invs {
		batch.Invs[i].Write()
	}
	batch.WriteSteps()
	p.tel.host(ctx, len(batch.Invs), len(batch.Steps))
}

// tablesFor are the tables that serve a resource's service.
func (p *phaseProcessor) tablesFor(res pcommon.Resource) []*engine.Table {
	service := ""
	if v, ok := res.Attributes().Get("service.name"); ok {
		service = v.AsString()
	}
	for i, t := range p.tables {
		if t.Serves(service) {
			continue
		}
		out := append([]*engine.Table(nil), p.tables[:i]...)
		for _, t := range p.tables[i+1:] {
			if t.Serves(service) {
				out = append(out, t)
			}
		}
		return out
	}
	return p.tables
}

func roleOf(tables []*engine.Table, name string) (*engine.Table, engine.Role) {
	for _, t := range tables {
		if role := t.Role(name); role != engine.RoleNone {
			return t, role
		}
	}
	return nil, engine.RoleNone
}
