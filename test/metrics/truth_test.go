// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/phasecol/phasecol/cmd/stracegen/truth"
)

// ttftOfSuccess is no phase: gen_ai.server.time_to_first_token leaves failed
// requests out, phase.duration does not.
const ttftOfSuccess = "ttft of success"

// facts are what a simulated service really did, as the metrics should tell it.
// Values are seconds.
type facts struct {
	// phases are the values of a phase, by phase and then by label: the callable
	// of a run, the model of a request.
	phases map[string]map[string][]float64
	// byDevice are the host walls and device walls, by device.
	hostWall, deviceWall map[string][]float64
	// counts are events by metric and label.
	counts map[string]map[string]float64
	traces []request
}

// request is one HTTP request and what retention must do with it.
type request struct {
	trace  string
	failed bool
}

func newFacts() *facts {
	return &facts{
		phases:   map[string]map[string][]float64{},
		hostWall: map[string][]float64{}, deviceWall: map[string][]float64{},
		counts: map[string]map[string]float64{},
	}
}

func (f *facts) phase(name, label string, seconds float64) {
	if f.phases[name] == nil {
		f.phases[name] = map[string][]float64{}
	}
	f.phases[name][label] = append(f.phases[name][label], seconds)
}

func (f *facts) count(metric, label string, n float64) {
	if f.counts[metric] == nil {
		f.counts[metric] = map[string]float64{}
	}
	f.counts[metric][label] += n
}

// add takes the truth about a run of the simulator that served model.
func (f *facts) add(t *truth.File, model string) {
	for i := range t.Invocations {
		f.addInvocation(&t.Invocations[i])
	}
	if t.Level != "" {
		for i := range t.Runs {
			r := &t.Runs[i]
			f.phase("step", "", seconds(r.DurationNS))
			f.phase("rank_skew", "", seconds(r.RankSkewNS))
		}
	}
	for i := range t.Requests {
		f.addRequest(&t.Requests[i], model)
	}
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

func (f *facts) addInvocation(v *truth.Invocation) {
	const device = "run.runner_run.device_wall"
	host := seconds(v.DurationNS)
	f.phase("host_wall", v.Callable, host)
	f.hostWall[strconv.Itoa(int(v.Device))] = append(f.hostWall[strconv.Itoa(int(v.Device))], host)
	var top int64
	for stage, ns := range v.Phases {
		name := strings.TrimPrefix(stage, "run.")
		switch {
		case stage == "run":
		case stage == device:
			f.phase("device_wall", v.Callable, seconds(ns))
			f.deviceWall[strconv.Itoa(int(v.Device))] = append(f.deviceWall[strconv.Itoa(int(v.Device))], seconds(ns))
		case strings.HasPrefix(stage, device+"."):
			f.phase(strings.TrimPrefix(stage, device+"."), v.Callable, seconds(ns))
		case stage == "run.bind.compatibility", stage == "run.publish_image":
			// Directly below the root, and no phase of their own.
			top += ns
		case strings.HasPrefix(stage, "run.bind."):
			f.phase(name, v.Callable, seconds(ns))
		case !strings.Contains(name, "."):
			f.phase(name, v.Callable, seconds(ns))
			top += ns
		}
	}
	f.phase("unattributed", v.Callable, seconds(v.DurationNS-top))
	if wall, ok := v.Phases[device]; ok {
		f.phase("host_overhead", v.Callable, seconds(v.DurationNS-wall))
		f.phase("launch_overhead", v.Callable, seconds(v.Phases["run.runner_run"]-wall))
	}
	if prep := v.Phases[device+".config_validate"] + v.Phases[device+".arena_wire"] + v.Phases[device+".sm_reset"]; prep > 0 {
		f.phase("prep", v.Callable, seconds(prep))
	}
	if v.DeviceBlock != nil && v.DeviceBlock.EffectiveNS > 0 {
		f.phase("effective", v.Callable, seconds(v.DeviceBlock.EffectiveNS))
	}
}

func (f *facts) addRequest(r *truth.Request, model string) {
	f.count("phase_requests_total", strconv.Itoa(r.HTTPStatus), 1)
	f.traces = append(f.traces, request{r.TraceID, r.ErrorType != "" && r.HTTPStatus >= 500})
	if len(r.Sequences) > 0 {
		inside := make([]truth.Interval, 0, len(r.Sequences))
		for i := range r.Sequences {
			inside = append(inside, truth.Interval{Start: r.Sequences[i].StartNS, End: r.Sequences[i].EndNS})
		}
		f.phase("http_overhead", "", seconds(r.EndNS-r.StartNS-truth.Union(inside)))
	}
	for i := range r.Sequences {
		s := &r.Sequences[i]
		f.count("phase_sequences_total", s.ErrorType, 1)
		f.count("phase_tokens_total", model+" input", float64(s.PromptTokens))
		f.count("phase_tokens_total", model+" output", float64(s.CompletionTokens))
		f.phase("e2e", model, seconds(s.EndNS-s.StartNS))
		for p := range s.Phases {
			ph := &s.Phases[p]
			name := map[string]string{"prefill_waiting": "queue", "prefill_forward": "prefill", "decode_forward": "decode"}[ph.Name]
			f.phase(name, model, seconds(ph.EndNS-ph.StartNS))
		}
		if s.TTFTSeconds > 0 {
			f.phase("ttft", model, s.TTFTSeconds)
			if s.ErrorType == "" {
				f.phase(ttftOfSuccess, model, s.TTFTSeconds)
			}
		}
		if s.TPOTSeconds > 0 {
			f.phase("tpot", model, s.TPOTSeconds)
		}
		if s.HostRuns > 0 {
			f.count("joined", "", 1)
			f.phase("host_busy", model, seconds(s.HostBusyNS))
			f.phase("device_busy", model, seconds(s.DeviceBusyNS))
			f.phase("engine_gap", model, seconds(s.EngineGapNS))
		}
	}
}

// all are the values of a phase, whatever their label.
func (f *facts) all(phase string) []float64 {
	var out []float64
	for _, values := range f.phases[phase] {
		out = append(out, values...)
	}
	return out
}

func sum(values []float64) float64 {
	// Small ones first: closest to the exact sum.
	values = slices.Sorted(slices.Values(values))
	var s float64
	for _, v := range values {
		s += v
	}
	return s
}

func average(values []float64) float64 { return sum(values) / float64(len(values)) }

func total(counts map[string]float64) float64 {
	var s float64
	for _, n := range counts {
		s += n
	}
	return s
}

// within is the interval in which a histogram with these bounds may say that
// the quantile q of values lies: the buckets that hold the value at that rank,
// and at five percent of the ranks to either side, since a rate is extrapolated.
func within(q float64, values, bounds []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := float64(len(sorted))
	at := func(rank float64) float64 {
		return sorted[int(min(max(math.Ceil(rank), 1), n))-1]
	}
	slack := 0.05*n + 1
	i := sort.SearchFloat64s(bounds, at(q*n-slack))
	if i > 0 {
		low = bounds[i-1]
	}
	j := sort.SearchFloat64s(bounds, at(q*n+slack))
	// The last bucket has no upper bound: the estimate is its lower one.
	return low, bounds[min(j, len(bounds)-1)]
}
