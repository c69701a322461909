// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/engine"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/hold"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phases"
	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/request"
)

// sorter tells the spans of one call apart: host spans go to the batch and stay
// where they are, request spans are taken out, the others just stay.
type sorter struct {
	*phaseProcessor
	batch    *phases.Batch
	requests *hold.Taker
	others   int
}

func (p *phaseProcessor) sort(td ptrace.Traces, batch *phases.Batch, requests *hold.Taker) (others int) {
	s := sorter{phaseProcessor: p, batch: batch, requests: requests}
	before := 0
	emptied := false
	for i, rs := range td.ResourceSpans().All() {
		s.resource(i, rs)
		emptied = emptied || requests.Spans > before
		before = requests.Spans
	}
	if emptied {
		dropEmpty(td)
	}
	return s.others
}

// resource sorts the spans of one resource. What it is, is read when the first
// span needs it.
func (s *sorter) resource(i int, rs ptrace.ResourceSpans) {
	proc := int32(len(s.batch.Procs))
	known := false
	var home home
	for k, ss := range rs.ScopeSpans().All() {
		ss.Spans().RemoveIf(func(span ptrace.Span) bool {
			if s.batch.Add(proc, span) {
				if !known {
					s.batch.AddProc(s.ident.Proc(rs.Resource()), rs.Resource())
					known = true
				}
				return false
			}
			if !home.known {
				home = s.home(rs.Resource())
			}
			table, role := roleOf(home.tables, span.Name())
			if role == engine.RoleNone || settled(span, role) {
				s.others++
				return false
			}
			taken := s.requests.Take(span, i, rs, k, ss)
			taken.Table, taken.Role, taken.Groups, taken.Host = table, role, home.groups, home.host
			return true
		})
	}
}

// home is what request spans need to know of their resource.
type home struct {
	known  bool
	tables []*engine.Table
	groups phases.GroupValues
	host   string
}

func (p *phaseProcessor) home(res pcommon.Resource) home {
	h := home{known: true, groups: p.ident.Groups(res)}
	if v, ok := res.Attributes().Get("host.name"); ok {
		h.host = v.AsString()
	}
	service := ""
	if v, ok := res.Attributes().Get("service.name"); ok {
		service = v.AsString()
	}
	h.tables = p.tables
	for _, t := range p.tables {
		if !t.Serves(service) {
			h.tables = serving(p.tables, service)
			break
		}
	}
	return h
}

func serving(tables []*engine.Table, service string) []*engine.Table {
	var out []*engine.Table
	for _, t := range tables {
		if t.Serves(service) {
			out = append(out, t)
		}
	}
	return out
}

func roleOf(tables []*engine.Table, name string) (*engine.Table, engine.Role) {
	for _, t := range tables {
		if role := t.Role(name); role != engine.RoleNone {
			return t, role
		}
	}
	return nil, engine.RoleNone
}

// settled says whether another phase processor has done all there is to do for
// a span, so that it need not wait here again. One that this other could not
// join is tried again: a gateway sees more hosts than an agent.
func settled(span ptrace.Span, role engine.Role) bool {
	attrs := span.Attributes()
	switch role {
	case engine.RoleThread:
		return false
	case engine.RoleRequest:
		_, ok := attrs.Get(semconv.PhaseContract)
		return ok
	case engine.RoleQueue:
		_, ok := attrs.Get(semconv.PhaseSeen)
		return ok
	default:
		return request.Joined(attrs)
	}
}

// dropEmpty removes the scopes and resources that sorting left without spans.
func dropEmpty(td ptrace.Traces) {
	td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool { return ss.Spans().Len() == 0 })
		return rs.ScopeSpans().Len() == 0
	})
}
