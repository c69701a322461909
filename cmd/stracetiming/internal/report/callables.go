// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package report // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/report"

import (
	"cmp"
	"slices"
	"strings"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/series"
	"github.com/phasecol/phasecol/cmd/stracetiming/internal/unit"
	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

const (
	// maxCallables and maxStages bound what one report distinguishes. What is
	// over them is left out and counted.
	maxCallables = 1024
	maxStages    = 4096
)

// Callables collects the durations of every stage of every callable.
type Callables struct {
	// Skipped counts invocations and spans beyond the bounds.
	Skipped uint64

	pool   *series.Pool // nil: no quantiles
	list   []*callable
	byKey  map[callableKey]*callable
	stages int
	// last is the one seen last: records come in runs of one callable.
	last *callable
}

// callableKey tells callables apart: by hid, and where that is 0, which some
// runtimes always print, by the digest the run's dispatch names.
type callableKey struct {
	hid     uint64
	node    uint64
	prewarm bool
}

type callable struct {
	key         callableKey
	hid         string
	invocations int64
	incomplete  int64
	// onboard is set once an invocation bore the identity that only real
	// hardware's runtime prints.
	onboard bool

	stages []*stage
	byName map[*strace.Name]*stage
	byText map[string]*stage
	// hint is the order in which the last invocation's stages came: the next
	// one's most likely come the same way.
	hint      []*stage
	effective series.Series
}

type stage struct {
	series.Series
	name   string
	stage  string
	last   string
	depth  int32
	device bool
	// starts sums the starts after the invocation's, for the order of print.
	starts int64
}

// NewCallables returns a collector, with medians and other quantiles or
// without.
func NewCallables(quantiles bool) *Callables {
	c := &Callables{byKey: map[callableKey]*callable{}}
	if quantiles {
		c.pool = series.NewPool()
	}
	return c
}

// Trace implements feed.Consumer.
func (c *Callables) Trace(t *strace.Trace) error {
	unit.Each(t, c.add)
	return nil
}

func (c *Callables) add(u *unit.Unit) {
	if u.Kind != unit.Invocation && u.Kind != unit.Prewarm {
		return
	}
	of := u.Root
	if of == nil {
		of = &u.Spans[0]
	}
	key := callableKey{hid: of.HID, prewarm: u.Kind == unit.Prewarm}
	if key.hid == 0 {
		key.node = u.NodeHID
	}
	cb := c.callable(key, of)
	if cb == nil {
		c.Skipped++
		return
	}
	cb.invocations++
	if u.Root == nil {
		cb.incomplete++
	} else if u.Kind == unit.Invocation && !cb.onboard && u.Root.HID == 0 {
		cb.onboard = strace.ParseIdentity(u.Root.Attrs).Has&strace.HasSlotID != 0
	}
	c.spans(cb, u, of.Start)
}

func (c *Callables) callable(key callableKey, s *strace.Span) *callable {
	if c.last != nil && c.last.key == key {
		return c.last
	}
	cb, ok := c.byKey[key]
	if !ok {
		if len(c.list) == maxCallables {
			return nil
		}
		cb = &callable{
			key: key, hid: unit.HID(s.HID, s.HIDDigits), effective: series.New(c.pool),
			byName: map[*strace.Name]*stage{}, byText: map[string]*stage{},
		}
		c.byKey[key] = cb
		c.list = append(c.list, cb)
	}
	c.last = cb
	return cb
}

func (c *Callables) spans(cb *callable, u *unit.Unit, start int64) {
	var orch, sched *strace.Span
	at := 0
	for i := range u.Spans {
		s := &u.Spans[i]
		c.sample(cb, at, s.Name, s.Depth, s.Device, s.Start-start, s.End-s.Start)
		at++
		switch s.Name.Stage {
		case stageOrch:
			orch = s
		case stageSched:
			sched = s
		}
		for k := range s.NumEvents {
			e := &u.Trace.Events[s.FirstEvent+k]
			c.sample(cb, at, e.Name, s.Depth+1, false, e.Time-start, 0)
			at++
		}
	}
	if orch != nil && sched != nil && c.pool != nil {
		cb.effective.Add(max(orch.End, sched.End) - min(orch.Start, sched.Start))
	}
}

const (
	stageOrch  = semconv.StageDeviceWall + ".orch"
	stageSched = semconv.StageDeviceWall + ".sched"
)

// sample adds one duration; at is its place among its invocation's.
func (c *Callables) sample(cb *callable, at int, name *strace.Name, depth int32, device bool, offset, dur int64) {
	var st *stage
	if at < len(cb.hint) && cb.hint[at].name == name.Text {
		st = cb.hint[at]
	} else {
		if st = cb.byName[name]; st == nil {
			if st = c.newStage(cb, name, depth, device); st == nil {
				c.Skipped++
				return
			}
		}
		if at < len(cb.hint) {
			cb.hint[at] = st
		} else {
			cb.hint = append(cb.hint, st)
		}
	}
	st.Add(dur)
	st.starts += offset
}

func (c *Callables) newStage(cb *callable, name *strace.Name, depth int32, device bool) *stage {
	st := cb.byText[name.Text]
	if st == nil {
		if c.stages == maxStages {
			return nil
		}
		c.stages++
		st = &stage{Series: series.New(c.pool), name: name.Text, stage: name.Stage, last: name.Last, depth: depth, device: device}
		cb.byText[name.Text] = st
		cb.stages = append(cb.stages, st)
	}
	if len(cb.byName) < 2*maxStages {
		cb.byName[name] = st
	}
	return st
}

// busiest returns the callables by falling number of invocations, set-ups
// last.
func (c *Callables) busiest() []*callable {
	list := slices.Clone(c.list)
	slices.SortStableFunc(list, func(a, b *callable) int {
		if a.key.prewarm != b.key.prewarm {
			if b.key.prewarm {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.invocations, a.invocations)
	})
	return list
}

// label names a callable as the runtime's own tool does: the busiest one is
// decode, one seen once is prefill. hid 0 names nothing.
func label(busiest []*callable, cb *callable) string {
	switch {
	case cb.key.prewarm:
		return "prewarm"
	case cb.key.hid == 0:
		return "unnamed"
	case cb == firstNamed(busiest) && cb.invocations > 1:
		return "decode"
	case cb.invocations == 1:
		return "prefill"
	case len(cb.hid) > 8:
		return cb.hid[:8]
	default:
		return cb.hid
	}
}

func firstNamed(busiest []*callable) *callable {
	for _, cb := range busiest {
		if cb.key.hid != 0 && !cb.key.prewarm {
			return cb
		}
	}
	return nil
}

// title is the callable's line in a table, without its counts.
func (cb *callable) title() string {
	switch {
	case cb.key.prewarm:
		return "prewarm hid=" + cb.hid
	case cb.key.node != 0:
		return "callable hid=" + cb.hid + " node=" + cb.nodeHID()
	default:
		return "callable hid=" + cb.hid
	}
}

func (cb *callable) nodeHID() string {
	if cb.key.node == 0 {
		return ""
	}
	return unit.HID(cb.key.node, 16)
}

// Warnings tell what the tables cannot.
func (c *Callables) Warnings() []string {
	var w []string
	for _, cb := range c.list {
		if cb.onboard && cb.key.hid == 0 && cb.key.node == 0 && cb.invocations > 1 {
			w = append(w, itoa(cb.invocations)+" invocations print hid=0, as one runtime does for every callable: they may be of several, and nothing in the log tells them apart")
		}
		for _, st := range cb.stages {
			if !st.Exact() {
				w = append(w, "more values than are kept: some medians and percentiles are within 0.1 % of the true ones (means, minima and maxima are exact)")
				return append(w, c.skipped()...)
			}
		}
	}
	return append(w, c.skipped()...)
}

func (c *Callables) skipped() []string {
	if c.Skipped == 0 {
		return nil
	}
	return []string{itoa(int64(c.Skipped)) + " spans or invocations of further callables or stages are left out to bound memory"}
}

// parentOf finds the stage that st hangs under: of smaller depth, and its
// longest dotted prefix.
func (cb *callable) parentOf(st *stage) *stage {
	for name := st.name; ; {
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			return nil
		}
		name = name[:i]
		if p := cb.byText[name]; p != nil && p.depth < st.depth {
			return p
		}
	}
}
