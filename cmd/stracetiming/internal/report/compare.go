// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package report // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/report"

import (
	"cmp"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/series"
)

// Change is one stage's median in two logs. Times are nanoseconds.
type Change struct {
	Callable string  `json:"callable"`
	HIDA     string  `json:"hid_a"`
	HIDB     string  `json:"hid_b"`
	Stage    string  `json:"stage"`
	NameA    string  `json:"name_a"`
	NameB    string  `json:"name_b"`
	NA       int64   `json:"n_a"`
	NB       int64   `json:"n_b"`
	MedianA  float64 `json:"median_a_ns"`
	MedianB  float64 `json:"median_b_ns"`
	Delta    float64 `json:"delta_ns"`
	// Noise bounds what chance alone does to Delta, 95 %; -1 where too few
	// values bound nothing.
	Noise   float64 `json:"noise_ns"`
	Verdict string  `json:"verdict"`
}

// The verdicts.
const (
	verdictNoise   = "within noise"
	verdictFaster  = "faster"
	verdictSlower  = "slower"
	verdictFew     = "too few"
	verdictOnlyInA = "only in A"
	verdictOnlyInB = "only in B"
)

// Compare sets the stages of two logs side by side. Callables match by hid,
// those left by their role: a new build of a callable has a new hid.
func Compare(a, b *Callables) []Change {
	var changes []Change
	for _, pair := range matchCallables(a, b) {
		changes = append(changes, pair.changes()...)
	}
	return changes
}

type callablePair struct {
	label string
	a, b  *callable
}

func matchCallables(a, b *Callables) []callablePair {
	listA, listB := a.busiest(), b.busiest()
	var pairs []callablePair
	takenB := map[*callable]bool{}
	match := func(same func(x, y *callable) bool) {
		for _, x := range listA {
			if slices.ContainsFunc(pairs, func(p callablePair) bool { return p.a == x }) {
				continue
			}
			for _, y := range listB {
				if !takenB[y] && same(x, y) {
					takenB[y] = true
					pairs = append(pairs, callablePair{label(listA, x), x, y})
					break
				}
			}
		}
	}
	match(func(x, y *callable) bool { return x.key == y.key })
	match(func(x, y *callable) bool { return label(listA, x) == label(listB, y) })
	// A lone callable on each side is the same one whatever it is called.
	match(func(x, y *callable) bool {
		return len(listA) == 1 && len(listB) == 1 && x.key.prewarm == y.key.prewarm
	})
	slices.SortStableFunc(pairs, func(x, y callablePair) int {
		return cmp.Compare(slices.Index(listA, x.a), slices.Index(listA, y.a))
	})
	for _, x := range listA {
		if !slices.ContainsFunc(pairs, func(p callablePair) bool { return p.a == x }) {
			pairs = append(pairs, callablePair{label(listA, x), x, nil})
		}
	}
	for _, y := range listB {
		if !takenB[y] {
			pairs = append(pairs, callablePair{label(listB, y), nil, y})
		}
	}
	return pairs
}

// changes lists the pair's stages in the order of the tree, A's first.
func (p callablePair) changes() []Change {
	var list []Change
	if p.a != nil {
		for _, st := range p.a.inOrder() {
			list = append(list, p.change(st, p.b.byStage(st.stage)))
		}
	}
	if p.b != nil {
		for _, st := range p.b.inOrder() {
			if p.a.byStage(st.stage) == nil {
				list = append(list, p.change(nil, st))
			}
		}
	}
	return list
}

// byStage finds a stage by its name in the one vocabulary of all generations.
func (cb *callable) byStage(name string) *stage {
	if cb == nil {
		return nil
	}
	return named(cb.stages, name)
}

func (p callablePair) change(a, b *stage) Change {
	c := Change{Callable: p.label, Noise: -1}
	if p.a != nil {
		c.HIDA = p.a.hid
	}
	if p.b != nil {
		c.HIDB = p.b.hid
	}
	if a != nil {
		c.Stage, c.NameA, c.NA, c.MedianA = a.stage, a.name, a.N(), a.Median()
	}
	if b != nil {
		c.Stage, c.NameB, c.NB, c.MedianB = b.stage, b.name, b.N(), b.Median()
	}
	switch {
	case b == nil:
		c.Verdict = verdictOnlyInA
	case a == nil:
		c.Verdict = verdictOnlyInB
	default:
		c.judge(a, b)
	}
	return c
}

// judge compares the change with what chance does to two medians: each one's
// 95 % interval reaches so far on the side of the other, and independent
// errors add as squares.
func (c *Change) judge(a, b *stage) {
	c.Delta = c.MedianB - c.MedianA
	lowA, highA, okA := a.MedianInterval()
	lowB, highB, okB := b.MedianInterval()
	if !okA || !okB {
		c.Verdict = verdictFew
		return
	}
	reachA, reachB := highA-c.MedianA, c.MedianB-lowB
	if c.Delta < 0 {
		reachA, reachB = c.MedianA-lowA, highB-c.MedianB
	}
	c.Noise = math.Hypot(reachA, reachB)
	if !a.Exact() {
		c.Noise += c.MedianA * series.SketchError
	}
	if !b.Exact() {
		c.Noise += c.MedianB * series.SketchError
	}
	switch {
	case math.Abs(c.Delta) <= c.Noise:
		c.Verdict = verdictNoise
	case c.Delta < 0:
		c.Verdict = verdictFaster
	default:
		c.Verdict = verdictSlower
	}
}

// Percent is the change in percent of A, 0 where A is 0.
func (c *Change) Percent() float64 { return percent(c.Delta, c.MedianA) }

func percent(part, of float64) float64 {
	if of == 0 {
		return 0
	}
	return part / of * 100
}

// WriteChanges writes a comparison; with a top, the largest changes beyond
// noise only.
func WriteChanges(w io.Writer, changes []Change, opt Options) error {
	if opt.Top > 0 {
		changes = largest(changes, opt.Top)
	}
	switch opt.Format {
	case JSON:
		return writeJSON(w, map[string]any{"mode": "compare", "changes": nonNil(changes), "warnings": nonNil(opt.Warnings)})
	case CSV:
		return changesCSV(w, changes)
	}
	p := newPrinter(w, opt)
	if len(changes) == 0 {
		p.printf("%s\n", noMarkers)
	}
	last := ""
	for i := range changes {
		c := &changes[i]
		if title := c.title(); title != last {
			p.printf("%s\n", p.style(bold, title))
			p.printf("%s\n", p.style(dim, "  median A (us)  median B (us)      change  change (%)  noise (us)      n A      n B  verdict       stage"))
			last = title
		}
		noise := "-"
		if c.Noise >= 0 {
			noise = "±" + us(c.Noise)
		}
		verdict := padTo(c.Verdict, 12)
		switch c.Verdict {
		case verdictSlower:
			verdict = p.style(red, verdict)
		case verdictFaster:
			verdict = p.style(green, verdict)
		}
		p.printf("  %13s  %13s  %10s  %10s  %10s  %7d  %7d  %s  %s\n", us(c.MedianA), us(c.MedianB), us(c.Delta),
			strconv.FormatFloat(c.Percent(), 'f', 1, 64), noise, c.NA, c.NB, verdict, c.Stage)
	}
	return p.flush()
}

func padTo(text string, width int) string {
	for len(text) < width {
		text += " "
	}
	return text
}

func (c *Change) title() string {
	switch {
	case c.HIDA == c.HIDB:
		return "callable hid=" + c.HIDA + " (" + c.Callable + ")"
	case c.HIDB == "":
		return "callable hid=" + c.HIDA + " (" + c.Callable + "), in A only"
	case c.HIDA == "":
		return "callable hid=" + c.HIDB + " (" + c.Callable + "), in B only"
	default:
		return "callable hid=" + c.HIDA + " -> " + c.HIDB + " (" + c.Callable + ")"
	}
}

// largest lists the n changes that stand out of their noise the most.
func largest(changes []Change, n int) []Change {
	var beyond []Change
	for _, c := range changes {
		if c.Verdict == verdictFaster || c.Verdict == verdictSlower {
			beyond = append(beyond, c)
		}
	}
	slices.SortStableFunc(beyond, func(x, y Change) int { return cmp.Compare(math.Abs(y.Delta), math.Abs(x.Delta)) })
	return top(beyond, n)
}

func changesCSV(w io.Writer, changes []Change) error {
	var rows [][]string
	for i := range changes {
		c := &changes[i]
		rows = append(rows, []string{
			c.Callable, c.HIDA, c.HIDB, c.Stage, itoa(c.NA), itoa(c.NB), ftoa(c.MedianA), ftoa(c.MedianB), ftoa(c.Delta),
			strconv.FormatFloat(c.Percent(), 'f', 3, 64), ftoa(c.Noise), c.Verdict,
		})
	}
	return writeCSV(w, []string{
		"callable", "hid_a", "hid_b", "stage", "n_a", "n_b", "median_a_ns", "median_b_ns", "delta_ns", "change_percent", "noise_ns", "verdict",
	}, rows)
}
