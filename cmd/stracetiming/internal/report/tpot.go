// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package report // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/report"

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
)

// TPOT writes the time per callable and stage.
func (c *Callables) TPOT(w io.Writer, opt Options) error {
	switch opt.Format {
	case JSON:
		return writeJSON(w, map[string]any{"mode": "tpot", "callables": c.results(opt), "warnings": nonNil(opt.Warnings)})
	case CSV:
		return c.csv(w, opt)
	default:
		return c.tpotTable(w, opt)
	}
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (c *Callables) tpotTable(w io.Writer, opt Options) error {
	p := newPrinter(w, opt)
	if len(c.list) == 0 {
		p.printf("%s\n", noMarkers)
		return p.flush()
	}
	for _, cb := range top(c.busiest(), opt.Top) {
		p.printf("%s — %d invocation(s)%s\n", p.style(bold, cb.title()), cb.invocations, cb.incompleteNote())
		for _, st := range cb.byCount() {
			if st.depth == 0 && !st.device {
				p.printf("  %s: mean=%sus min=%sus max=%sus%s\n", st.name, us(float64(st.Mean())), us(float64(st.Min())), us(float64(st.Max())), st.percentiles(opt))
			}
		}
		for _, st := range cb.byCount() {
			if st.depth == 0 && !st.device {
				continue
			}
			p.printf("  %s%s: mean=%sus%s (n=%d)\n", strings.Repeat("  ", strings.Count(st.name, ".")), st.name, us(float64(st.Mean())), st.percentiles(opt), st.N())
		}
		p.printf("\n")
	}
	return p.flush()
}

func (cb *callable) incompleteNote() string {
	if cb.incomplete == 0 {
		return ""
	}
	return ", " + itoa(cb.incomplete) + " of them without a root"
}

// byCount orders stages by falling number of spans, then by name.
func (cb *callable) byCount() []*stage {
	list := slices.Clone(cb.stages)
	slices.SortFunc(list, func(a, b *stage) int { return cmp.Or(cmp.Compare(b.N(), a.N()), strings.Compare(a.name, b.name)) })
	return list
}

func (st *stage) percentiles(opt Options) string {
	var b strings.Builder
	for _, p := range opt.Percentiles {
		b.WriteString(" p" + ftoa(p) + "=" + us(st.Quantile(p/100)) + "us")
	}
	return b.String()
}

// Result is one callable as scripts get it. Times are nanoseconds.
type Result struct {
	HID         string        `json:"hid"`
	NodeHID     string        `json:"node_hid,omitempty"`
	Label       string        `json:"label"`
	Invocations int64         `json:"invocations"`
	Incomplete  int64         `json:"incomplete"`
	Stages      []StageResult `json:"stages"`
}

// StageResult is one stage of a callable.
type StageResult struct {
	Name        string             `json:"name"`
	Stage       string             `json:"stage"`
	Depth       int32              `json:"depth"`
	Clock       string             `json:"clock"`
	N           int64              `json:"n"`
	MeanNS      int64              `json:"mean_ns"`
	MinNS       int64              `json:"min_ns"`
	MaxNS       int64              `json:"max_ns"`
	MedianNS    float64            `json:"median_ns"`
	Percentiles map[string]float64 `json:"percentiles_ns"`
	Exact       bool               `json:"exact"`
}

// scriptPercentiles are what scripts get when none are asked for.
func (o Options) scriptPercentiles() []float64 {
	if len(o.Percentiles) > 0 {
		return o.Percentiles
	}
	return []float64{90, 99}
}

func (c *Callables) results(opt Options) []Result {
	busiest := c.busiest()
	list := []Result{}
	for _, cb := range top(busiest, opt.Top) {
		r := Result{
			HID: cb.hid, NodeHID: cb.nodeHID(), Label: label(busiest, cb),
			Invocations: cb.invocations, Incomplete: cb.incomplete, Stages: []StageResult{},
		}
		for _, st := range cb.inOrder() {
			r.Stages = append(r.Stages, st.result(opt))
		}
		list = append(list, r)
	}
	return list
}

func (st *stage) result(opt Options) StageResult {
	r := StageResult{
		Name: st.name, Stage: st.stage, Depth: st.depth, Clock: st.clock(), N: st.N(),
		MeanNS: st.Mean(), MinNS: st.Min(), MaxNS: st.Max(), MedianNS: st.Median(),
		Percentiles: map[string]float64{}, Exact: st.Exact(),
	}
	for _, p := range opt.scriptPercentiles() {
		r.Percentiles["p"+ftoa(p)] = st.Quantile(p / 100)
	}
	return r
}

func (st *stage) clock() string {
	if st.device {
		return "device"
	}
	return "host"
}

func (c *Callables) csv(w io.Writer, opt Options) error {
	header := []string{"hid", "node_hid", "label", "invocations", "incomplete", "name", "stage", "depth", "clock", "n", "mean_ns", "min_ns", "max_ns", "median_ns"}
	for _, p := range opt.scriptPercentiles() {
		header = append(header, "p"+ftoa(p)+"_ns")
	}
	var rows [][]string
	for _, r := range c.results(opt) {
		for i := range r.Stages {
			s := &r.Stages[i]
			row := []string{
				r.HID, r.NodeHID, r.Label, itoa(r.Invocations), itoa(r.Incomplete), s.Name, s.Stage,
				strconv.Itoa(int(s.Depth)), s.Clock, itoa(s.N), itoa(s.MeanNS), itoa(s.MinNS), itoa(s.MaxNS), ftoa(s.MedianNS),
			}
			for _, p := range opt.scriptPercentiles() {
				row = append(row, ftoa(s.Percentiles["p"+ftoa(p)]))
			}
			rows = append(rows, row)
		}
	}
	return writeCSV(w, header, rows)
}
