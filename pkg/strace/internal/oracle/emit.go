// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package oracle // import "github.com/phasecol/phasecol/pkg/strace/internal/oracle"

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// placement is how a host time becomes a wall time.
type placement struct {
	offset, err int64
	source      string
}

// place finds the clock of p for what begins at ts: the latest anchor at or
// before it, else the first one; else this host's clocks; else none.
func (o *reading) place(p *process, ts int64) placement {
	var best *anchor
	for i := range p.anchors {
		a := &p.anchors[i]
		if a.mono <= ts && (best == nil || best.mono > ts || a.mono >= best.mono) {
			best = a
		}
	}
	if best == nil {
		for i := range p.anchors {
			if a := &p.anchors[i]; best == nil || a.mono <= best.mono {
				best = a
			}
		}
	}
	switch {
	case best != nil:
		at := placement{best.wall - best.mono, distance(ts, best.mono) / 10_000, "anchor"}
		if o.opt.HasHostClock {
			gap := distance(at.offset, o.opt.HostClock)
			at.err = min(at.err, gap+10_000)
			if gap > 50_000_000+at.err+10_000 {
				at.err = max(at.err, gap)
			}
		}
		return at
	case o.opt.HasHostClock:
		return placement{o.opt.HostClock, 10_000, "host"}
	default:
		return placement{0, -1, "none"}
	}
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

func (o *reading) span(r *record, trace, id string, p *process, at placement) Span {
	return Span{
		Trace: trace, ID: id, Scope: p.scope, PID: p.pid, TID: r.tid, Inv: r.inv, HID: r.hid, Depth: r.depth,
		Name: r.name, Stage: stage(r.name), TS: r.ts, Start: r.ts + at.offset, End: r.end() + at.offset, Attrs: r.attrs,
		Device: r.device, Source: at.source, Error: at.err, Fits: true,
	}
}

var traceparent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$`)

// emitSingle makes a trace of one record, under its W3C parent or its run
// where it names one.
func (o *reading) emitSingle(u *unit, runs []*run) {
	r := u.records[0]
	trace := traceID('s', o.opt.Host, u.proc.scope, u.proc.pid, u.inv, r.ts, r.name)
	parent := ""
	if family(r.name) == "external" {
		a := attributes(r.attrs)
		m := traceparent.FindStringSubmatch(a["traceparent"])
		id, _ := natural(a["run_id"])
		switch {
		case m != nil && m[1] != "ff" && strings.Trim(m[2], "0") != "" && strings.Trim(m[3], "0") != "" && (m[1] != "00" || m[4] == ""):
			trace, parent = m[2], m[3]
		case id != 0:
			var fits []*run
			for _, x := range runs {
				end := x.end()
				if x.proc.scope == u.proc.scope && x.id == id && x.start() <= r.ts && (r.ts <= end || !x.over()) {
					fits = append(fits, x)
				}
			}
			if len(fits) == 1 {
				trace, parent = fits[0].trace, fits[0].root
			}
		}
	}
	o.tree(u, trace, parent, "none")
}

func (o *reading) emitInvocation(u *unit, runs []*run) {
	trace := traceID('i', o.opt.Host, u.proc.scope, u.proc.pid, u.inv, u.start(), "")
	if u.root < 0 {
		o.tree(u, trace, "", "none")
		return
	}
	root := u.records[u.root]
	if s := chipStage(root.name); s == "prewarm.build" {
		o.tree(u, traceID('s', o.opt.Host, u.proc.scope, u.proc.pid, u.inv, u.start(), root.name), "", "none")
		return
	}
	o.result.Invocations++
	if h, ok := o.stitch(u, runs); ok {
		o.tree(u, h.trace, h.span, h.how)
		return
	}
	o.tree(u, trace, "", "none")
}

// tree emits the spans of one invocation under parent.
func (o *reading) tree(u *unit, trace, parent, how string) {
	at := o.place(u.proc, u.start())
	block, slack, fits := device(u)
	parents, guessed := tree(u)
	spans := make([]Span, len(u.records))
	isEvent := make([]bool, len(u.records))
	for i, r := range u.records {
		repeat := 0
		for j := range i {
			x := u.records[j]
			if !isEvent[j] && x.name == r.name && x.ts == r.ts && x.tid == r.tid && x.device == r.device {
				repeat++
			}
		}
		isEvent[i] = r.point() && i != u.root && parents[i] >= 0
		spans[i] = o.span(r, trace, spanID(trace, r.name, r.device, u.proc.pid, u.inv, u.start(), r.ts, r.tid, repeat), u.proc, at)
		if !r.host() {
			spans[i].Start += block
			spans[i].End += block
			spans[i].Slack, spans[i].Fits = slack, fits
			if spans[i].Error >= 0 {
				spans[i].Error += slack
			}
		}
		spans[i].Guessed = guessed[i]
	}
	for i, r := range u.records {
		switch {
		case isEvent[i]:
			p := &spans[parents[i]]
			p.Events = append(p.Events, Event{r.name, spans[i].Start, r.attrs})
		case parents[i] >= 0:
			spans[i].Parent = spans[parents[i]].ID
		default:
			spans[i].Parent = parent
			spans[i].Incomplete = u.root < 0 || u.lost
			if i == u.root && chipStage(r.name) == "run" {
				spans[i].Stitch = how
			}
		}
	}
	for i := range spans {
		if !isEvent[i] {
			o.result.Spans = append(o.result.Spans, spans[i])
		}
	}
}

// device places the block of device records: behind the start of runner_run
// and the launch, with the room that is left.
func device(u *unit) (start, slack int64, fits bool) {
	var runner *record
	extent, launch := int64(0), int64(-1)
	for _, r := range u.records {
		switch s := chipStage(r.name); {
		case !r.host():
			extent = max(extent, r.end())
		case s == "run.runner_run" && !r.point():
			runner = r
		case s == "run.runner_run.aicpu_launch":
			launch = max(launch, r.ts)
		}
	}
	if runner == nil {
		return u.start(), 0, false
	}
	start = max(runner.ts, launch)
	slack = runner.end() - start - extent
	if slack < 0 {
		return start, 0, false
	}
	return start, slack, true
}

// tree finds the parent of every record, -1 for topmost ones.
func tree(u *unit) (parents []int, guessed []bool) {
	parents = make([]int, len(u.records))
	guessed = make([]bool, len(u.records))
	for i := range u.records {
		parents[i] = -1
		if i == u.root {
			continue
		}
		p, ok := byName(u, i)
		if !ok && !structured(u.records[i].name) {
			p, ok = byDepth(u, i)
		}
		if !ok && !structured(u.records[i].name) {
			p, ok = byOrder(u, i)
		}
		switch {
		case ok:
			parents[i] = p
		case u.root >= 0:
			parents[i] = u.root
			guessed[i] = !structured(u.records[i].name) || u.records[i].depth != u.records[u.root].depth+1
		}
		if guessed[i] && u.records[i].point() {
			guessed[i] = false // it becomes an event
		}
	}
	return parents, guessed
}

// byName is rule 1: the longest dotted prefix among records of smaller depth.
func byName(u *unit, i int) (int, bool) {
	r := u.records[i]
	var best []int
	length := -1
	for j, p := range u.records {
		if p.point() || p.depth >= r.depth || !strings.HasPrefix(r.name, p.name+".") || len(p.name) < length || p.name == "" {
			continue
		}
		if len(p.name) > length {
			best, length = nil, len(p.name)
		}
		best = append(best, j)
	}
	if len(best) > 1 {
		var above []int
		for _, j := range best {
			if u.records[j].depth == r.depth-1 {
				above = append(above, j)
			}
		}
		if len(above) > 0 {
			best = above
		}
	}
	if len(best) > 1 {
		var around []int
		for _, j := range best {
			if p := u.records[j]; p.device == r.device && p.ts <= r.ts && r.end() <= p.end() {
				around = append(around, j)
			}
		}
		best = around
	}
	if len(best) != 1 {
		return 0, false
	}
	return best[0], true
}

// byDepth is rule 2: the only record one level up.
func byDepth(u *unit, i int) (int, bool) {
	found, n := 0, 0
	for j, p := range u.records {
		if !p.point() && p.depth == u.records[i].depth-1 {
			found = j
			n++
		}
	}
	return found, n == 1
}

// byOrder is rule 3: the next record one level up on the same thread.
func byOrder(u *unit, i int) (int, bool) {
	for j := i + 1; j < len(u.records); j++ {
		if p := u.records[j]; !p.point() && p.depth == u.records[i].depth-1 && p.tid == u.records[i].tid {
			return j, true
		}
	}
	return 0, false
}

// traceID is the 128-bit hash of host, scope, pid, number and begin.
func traceID(domain byte, host, scope string, pid int64, number uint64, ts int64, name string) string {
	b := []byte{domain}
	b = text(b, host)
	b = text(b, scope)
	b = binary.LittleEndian.AppendUint32(b, uint32(pid))
	b = binary.LittleEndian.AppendUint64(b, number)
	b = binary.LittleEndian.AppendUint64(b, uint64(ts))
	b = text(b, name)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// spanID is the 64-bit hash of what tells a record from all others of a trace.
func spanID(trace, name string, device bool, pid int64, inv uint64, unitTS, ts, tid int64, repeat int) string {
	b, err := hex.DecodeString(trace)
	if err != nil {
		panic(err)
	}
	b = text(b, name)
	clock := byte(0)
	if device {
		clock = 1
	}
	b = append(b, clock)
	b = binary.LittleEndian.AppendUint32(b, uint32(pid))
	for _, v := range []uint64{inv, uint64(unitTS), uint64(ts), uint64(tid), uint64(repeat)} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, xxhash.Sum64(b)))
}

func text(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}
