// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phasetest"
)

// world is a serving process with all its true times, and what it sends.
type world struct {
	rng      *rand.Rand
	runs     []trueRun
	requests []phasetest.Request
	hosts    []string
	calls    []ptrace.Traces
	// skew is what the host logs' placement on the wall is off by, err the
	// bound that they state.
	skew, err int64
}

type trueRun struct {
	host             string
	rank             int
	start, end       int64
	devStart, devEnd int64
	step             int
}

// newWorld simulates steps on so many ranks of two hosts, and requests that
// decode up to batch at a time, each on one host.
func newWorld(seed uint64, ranks, batch int, skew, clockErr int64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, uint64(ranks*100+batch))), skew: skew, err: clockErr}
	n := uint64(0)
	for h := range 2 {
		host := fmt.Sprint("host-", h)
		at := t0 + w.rng.Int64N(5*ms)
		for step := range 60 {
			dur := 2*ms + w.rng.Int64N(6*ms)
			for rank := range ranks {
				n++
				w.addRun(n, host, rank, step, at+w.rng.Int64N(ms), dur)
			}
			at += dur + w.rng.Int64N(4*ms)
		}
		for k := range batch {
			r := phasetest.Request{
				Trace: uint64(1 + h*1000 + k), Span: uint64(1_000_000_000 + h*1_000_000 + k*1_000),
				Start: t0 + w.rng.Int64N(150*ms), Front: w.rng.Int64N(ms), Back: w.rng.Int64N(ms),
				Queue: 1 + w.rng.Int64N(20*ms), Prefill: 1 + w.rng.Int64N(30*ms), Decode: 1 + w.rng.Int64N(300*ms),
				OutputTokens: 2 + w.rng.Int64N(100),
			}
			w.requests = append(w.requests, r)
			w.hosts = append(w.hosts, host)
			w.sendRequest(r, host)
		}
	}
	return w
}

func (w *world) addRun(n uint64, host string, rank, step int, start, dur int64) {
	r := trueRun{host: host, rank: rank, step: step, start: start, end: start + dur}
	c := phasetest.Chip{
		Trace: 1<<32 + n, Span: 1<<40 + 100*n, Inv: int64(step + 1), HID: "8f3a11c07be2d945", Start: start + w.skew, Dur: dur,
		ClockError: float64(w.err) / 1e9, Parts: phasetest.Usual(dur),
	}
	for _, p := range c.Parts {
		if p.Stage == "run.runner_run.device_wall" {
			r.devStart, r.devEnd = start+p.From, start+p.From+p.Dur
		}
	}
	w.runs = append(w.runs, r)
	td := ptrace.NewTraces()
	c.Append(phasetest.Resource(td, host, int64(100+rank)))
	w.calls = append(w.calls, td)
	if w.rng.IntN(10) == 0 { // read twice, as after a crash
		again := ptrace.NewTraces()
		td.CopyTo(again)
		w.calls = append(w.calls, again)
	}
}

// sendRequest sends a request in one to three calls, one of them twice at times.
func (w *world) sendRequest(r phasetest.Request, host string) {
	api, eng := ptrace.NewTraces(), ptrace.NewTraces()
	r.API(api, host)
	r.Engine(eng, host)
	parts := []ptrace.Traces{api}
	if w.rng.IntN(2) == 0 {
		parts = append(parts, split(eng, 1+w.rng.IntN(3))...)
	} else {
		parts = append(parts, eng)
	}
	if w.rng.IntN(5) == 0 {
		again := ptrace.NewTraces()
		parts[len(parts)-1].CopyTo(again)
		parts = append(parts, again)
	}
	w.calls = append(w.calls, parts...)
}

// shuffle disturbs the order in which calls arrive: each by at most reach.
func (w *world) shuffle(reach int) {
	type keyed struct {
		at int
		td ptrace.Traces
	}
	var order []keyed
	for i, td := range w.calls {
		order = append(order, keyed{i + w.rng.IntN(reach+1), td})
	}
	slices.SortStableFunc(order, func(a, b keyed) int { return a.at - b.at })
	for i := range order {
		w.calls[i] = order[i].td
	}
}

// truth is the plain O(n*m) answer, from the true times.
type truth struct{ runs, steps, host, device int64 }

func (w *world) truth(host string, from, to int64) truth {
	var t truth
	var hosts, devices [][2]int64
	perRank := map[int]int64{}
	for _, r := range w.runs {
		if r.host != host || r.start >= to || r.end <= from {
			continue
		}
		t.runs++
		perRank[r.rank]++
		t.steps = max(t.steps, perRank[r.rank])
		hosts = append(hosts, [2]int64{max(r.start, from), min(r.end, to)})
		devices = append(devices, [2]int64{max(r.devStart, from), min(r.devEnd, to)})
	}
	t.host, t.device = unionLength(hosts), unionLength(devices)
	return t
}

func unionLength(spans [][2]int64) (n int64) {
	slices.SortFunc(spans, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	var until int64
	for _, s := range spans {
		if s[0] = max(s[0], until); s[1] > s[0] {
			n += s[1] - s[0]
			until = s[1]
		}
	}
	return n
}

func ns(v any) int64 {
	if v == nil {
		return -1
	}
	return int64(v.(float64)*1e9 + 0.5)
}

func TestJoinAgainstTheTruth(t *testing.T) {
	const err = 200_000
	for _, ranks := range []int{1, 2, 8} {
		for _, batch := range []int{1, 5, 64} {
			for seed, skew := range []int64{0, 0, 0, -err, err} {
				t.Run(fmt.Sprintf("ranks=%d/batch=%d/seed=%d/skew=%d", ranks, batch, seed, skew), func(t *testing.T) {
					stated := int64(0)
					if skew != 0 {
						stated = err
					}
					w := newWorld(uint64(seed), ranks, batch, skew, stated)
					w.shuffle([]int{0, 30, 1 << 20}[seed%3])
					checkWorld(t, w)
				})
			}
		}
	}
}

func checkWorld(t *testing.T, w *world) {
	t.Helper()
	b := newBench(t, nil)
	sent := 0
	for _, td := range w.calls {
		sent += td.SpanCount()
		b.send(t, td)
		if w.rng.IntN(8) == 0 {
			b.clock = b.clock.Add(time.Millisecond)
		}
	}
	b.pass(t, 3*time.Second)
	copies := 0
	spans := map[string][]ptrace.Span{}
	for _, s := range phasetest.Spans(b.sink.all()...) {
		if isSet(s, "phase.copy") {
			copies++
			continue
		}
		key := s.TraceID().String() + s.Name()
		spans[key] = append(spans[key], s)
	}
	require.Equal(t, sent, b.sink.count()-copies)
	for i, r := range w.requests {
		id := phasetest.TraceID(r.Trace).String()
		var sum truth
		none := 0
		for _, phase := range []struct {
			name     string
			from, to int64
		}{{name: "prefill_forward"}, {name: "decode_forward"}} {
			if phase.from, phase.to = r.PrefillAt(); phase.name == "decode_forward" {
				phase.from, phase.to = r.DecodeAt()
			}
			want := w.truth(w.hosts[i], phase.from, phase.to)
			for _, s := range spans[id+phase.name] {
				none += w.compare(t, s, want, phase.to-phase.from)
			}
			sum.runs, sum.steps = sum.runs+want.runs, sum.steps+want.steps
			sum.host, sum.device = sum.host+want.host, sum.device+want.device
		}
		for _, s := range spans[id+"engine.request"] {
			if none == 0 {
				w.compare(t, s, sum, r.Prefill+r.Decode)
			}
			require.Equal(t, "ok", attr(s, "phase.contract"))
		}
	}
}

// compare holds a span against the truth. It returns 1 when the span says that
// it cannot tell.
func (w *world) compare(t *testing.T, s ptrace.Span, want truth, length int64) int {
	t.Helper()
	if attr(s, "phase.join") == "none" {
		if w.err == 0 {
			require.Zero(t, want.runs, "%s has no run", s.Name())
		}
		require.Nil(t, attr(s, "phase.host_busy"))
		return 1
	}
	require.Equal(t, "overlap", attr(s, "phase.join"))
	require.Equal(t, w.err, ns(attr(s, "phase.join.error")))
	slack := w.err
	if s.Name() == "engine.request" {
		slack *= 2 // two phases
	}
	device := max(0, ns(attr(s, "phase.device_busy")))
	require.InDelta(t, want.host, ns(attr(s, "phase.host_busy")), float64(slack))
	require.InDelta(t, want.device, device, float64(slack))
	require.Equal(t, length-ns(attr(s, "phase.host_busy")), ns(attr(s, "phase.engine_gap")))
	if w.err == 0 {
		require.Equal(t, want.runs, attr(s, "phase.host_runs"))
		require.Equal(t, want.steps, attr(s, "phase.steps"))
	}
	return 0
}
