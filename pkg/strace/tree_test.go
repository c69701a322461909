// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// played reads the lines of one scope to the end.
func played(tb testing.TB, lines ...string) *player {
	tb.Helper()
	p := newPlayer(tb)
	p.text("dir", strings.Join(lines, ""))
	p.flush()
	return p
}

// TestTreeRules gives each rule the records it decides on.
func TestTreeRules(t *testing.T) {
	root := mark(1, 1, 0, "chip.run", 0, 1000, "")
	for name, c := range map[string]struct {
		lines   []string
		child   string // name@ts
		parent  string // name@ts, empty: topmost
		guessed bool
	}{
		"1: longest dotted prefix, not the next one up": {
			[]string{mark(1, 1, 1, "chip.run.bind", 10, 50, ""), mark(1, 1, 2, "chip.run.runner_run.x", 20, 5, ""), mark(1, 1, 1, "chip.run.runner_run", 15, 30, "")},
			"chip.run.runner_run.x@20", "chip.run.runner_run@15", false,
		},
		"1: a prefix of equal depth is no parent": {
			[]string{mark(1, 1, 1, "chip.run.bind.compatibility", 5, 2, ""), mark(1, 1, 1, "chip.run.bind", 10, 50, "")},
			"chip.run.bind.compatibility@5", "chip.run@0", false,
		},
		"1: of several, the one just above": {
			[]string{mark(1, 1, 1, "chip.run.a", 10, 50, ""), mark(1, 1, 2, "chip.run.a", 15, 40, ""), mark(1, 1, 3, "chip.run.a.b", 16, 4, "")},
			"chip.run.a.b@16", "chip.run.a@15", false,
		},
		"1: of several just above, the enclosing one": {
			[]string{mark(1, 1, 1, "chip.run.a", 10, 50, ""), mark(1, 1, 1, "chip.run.a", 70, 50, ""), mark(1, 1, 2, "chip.run.a.b", 75, 4, "")},
			"chip.run.a.b@75", "chip.run.a@70", false,
		},
		"1: never by containment across clocks": {
			[]string{mark(1, 1, 1, "chip.run.a", 10, 500, ""), mark(1, 1, 1, "chip.run.a", 20, 500, ""), mark(1, 1, 2, "chip.run.a.b", 30, 4, "clk=dev")},
			"chip.run.a.b@30", "chip.run@0", true,
		},
		"1: two that enclose are no answer, and no shorter prefix is one": {
			[]string{mark(1, 1, 1, "chip.run.a", 10, 500, ""), mark(1, 1, 2, "chip.run.a.b", 20, 50, ""), mark(1, 1, 2, "chip.run.a.b", 21, 50, ""), mark(1, 1, 3, "chip.run.a.b.c", 30, 4, "")},
			"chip.run.a.b.c@30", "chip.run@0", true,
		},
		"1: the parent is missing, its parent is not": {
			[]string{mark(1, 1, 1, "chip.run.bind", 10, 50, ""), mark(1, 1, 3, "chip.run.bind.args.x", 15, 4, "")},
			"chip.run.bind.args.x@15", "chip.run.bind@10", false,
		},
		"1: a point is never a parent": {
			[]string{mark(1, 1, 1, "chip.run.bind", 10, 0, ""), mark(1, 1, 2, "chip.run.bind.args", 15, 4, "")},
			"chip.run.bind.args@15", "chip.run@0", false,
		},
		"2: the only record one level up": {
			[]string{mark(1, 1, 1, "chip.run.bind", 10, 50, ""), mark(1, 1, 2, "core.load", 15, 4, "")},
			"core.load@15", "chip.run.bind@10", false,
		},
		"3: the next one level up on the thread": {
			[]string{mark(1, 1, 1, "chip.run.bind", 10, 50, ""), mark(1, 1, 2, "core.load", 15, 4, ""), mark(1, 1, 1, "chip.run.validate", 70, 5, "")},
			"core.load@15", "chip.run.validate@70", false,
		},
		"4: the root": {
			[]string{mark(1, 1, 3, "core.load", 15, 4, "")},
			"core.load@15", "chip.run@0", true,
		},
		"4: below the root by depth is no guess": {
			[]string{mark(1, 1, 1, "simpler_run.x", 15, 4, "")},
			"simpler_run.x@15", "chip.run@0", false,
		},
		"an empty name": {
			[]string{mark(1, 1, 1, "", 15, 4, "")},
			"@15", "chip.run@0", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := played(t, append(c.lines, root)...)
			found := false
			for _, s := range p.all() {
				if fmt.Sprintf("%s@%d", s.Name, s.TS) != c.child {
					continue
				}
				found = true
				parent := ""
				if up, ok := p.spans[s.Trace+s.Parent]; ok {
					parent = fmt.Sprintf("%s@%d", up.Name, up.TS)
				}
				assert.Equal(t, c.parent, parent)
				assert.Equal(t, c.guessed, s.Guessed)
			}
			require.True(t, found)
			guesses := uint64(0)
			if c.guessed {
				guesses = 1
			}
			require.Equal(t, guesses, p.asm.Stats().GuessedParents)
		})
	}
}

// TestTreeOtherThread: rule 3 stays on its thread.
func TestTreeOtherThread(t *testing.T) {
	other := strings.Replace(mark(1, 1, 1, "chip.run.validate", 70, 5, ""), "tid=1", "tid=9", 1)
	p := played(t, mark(1, 1, 1, "chip.run.bind", 10, 5, ""), mark(1, 1, 2, "core.load", 15, 4, ""), other,
		mark(1, 1, 1, "chip.run.claim_release", 80, 5, ""), mark(1, 1, 0, "chip.run", 0, 1000, ""))
	require.Equal(t, "chip.run.claim_release", p.parentName(p.only("core.load")))
}

// TestTreeWithoutRoot: topmost spans say that they are incomplete, those below
// do not repeat it.
func TestTreeWithoutRoot(t *testing.T) {
	p := played(t, mark(1, 1, 2, "chip.run.bind.args", 12, 3, ""), mark(1, 1, 1, "chip.run.bind", 10, 50, ""), mark(1, 1, 1, "chip.run.runner_run", 70, 50, ""),
		mark(1, 1, 1, "chip.run.bind.overlap", 9, 0, "x=1"))
	require.Equal(t, []TraceKind{TraceIncomplete}, p.traces)
	for name, incomplete := range map[string]bool{"chip.run.bind.args": false, "chip.run.bind": true, "chip.run.runner_run": true, "chip.run.bind.overlap": true} {
		require.Equal(t, incomplete, p.only(name).Incomplete, name)
	}
	require.Equal(t, "chip.run.bind", p.parentName(p.only("chip.run.bind.args")))
	require.Zero(t, p.only("chip.run.bind.overlap").End-p.only("chip.run.bind.overlap").Start, "a point without parent is a span without length")
}

// TestTreeHuge: a hostile invocation costs its size, not its square.
func TestTreeHuge(t *testing.T) {
	p := newPlayer(t)
	line := mark(1, 1, 2, "chip.run.bind", 10, 5, "")
	for i := range 100_000 {
		p.line("dir", []byte(strings.Replace(line, "ts=10", fmt.Sprintf("ts=%d", 10+i%7), 1)), true)
	}
	for i := range 20_000 {
		p.line("dir", []byte(mark(1, 1, 3, "chip.run.bind.args", 100+int64(i), 1, "")), true)
	}
	p.flush()
	p.accounted()
}

// TestRepeatedRecords: equal names, even equal records far apart, keep ids of
// their own.
func TestRepeatedRecords(t *testing.T) {
	first := strings.Replace(mark(1, 1, 2, "chip.run.bind.seg", 12, 3, "n=1"), "hid=ab12", "hid=1", 1)
	p := played(t, first, mark(1, 1, 2, "chip.run.bind.seg", 12, 3, "n=2"), mark(1, 1, 1, "chip.run.bind", 10, 50, ""), mark(1, 1, 0, "chip.run", 0, 100, ""))
	segments := p.byName("chip.run.bind.seg")
	require.Len(t, segments, 2)
	require.NotEqual(t, segments[0].ID, segments[1].ID)
	// The very same record is a duplicate.
	p = played(t, first, first, mark(1, 1, 1, "chip.run.bind", 10, 50, ""), mark(1, 1, 0, "chip.run", 0, 100, ""))
	require.Len(t, p.byName("chip.run.bind.seg"), 1)
	require.Equal(t, uint64(1), p.asm.Stats().Records[OutcomeDuplicate])
}

func TestEventsInOrder(t *testing.T) {
	p := played(t,
		mark(1, 1, 2, "chip.run.bind.a", 12, 0, "n=1"), mark(1, 1, 1, "chip.run.joined", 5, 0, "n=2"),
		mark(1, 1, 2, "chip.run.bind.b", 11, 0, "n=3"), mark(1, 1, 1, "chip.run.bind", 10, 50, ""), mark(1, 1, 0, "chip.run", 0, 100, ""))
	require.Len(t, p.spans, 2)
	bind := p.only("chip.run.bind")
	require.Len(t, bind.Events, 2)
	require.Equal(t, "chip.run.bind.a n=1", bind.Events[0].Name+" "+bind.Events[0].Attrs)
	require.Equal(t, "chip.run.bind.b n=3", bind.Events[1].Name+" "+bind.Events[1].Attrs)
	require.Equal(t, int64(11), bind.Events[1].Time)
	require.Equal(t, "n=2", p.only("chip.run").Events[0].Attrs)
	require.Equal(t, uint64(3), p.asm.Stats().Events)
}

func TestTraceNames(t *testing.T) {
	kinds := []string{}
	for k := range NumTraceKinds + 1 {
		kinds = append(kinds, k.String())
	}
	require.Equal(t, []string{"invocation", "run", "late", "single", "incomplete", "unknown"}, kinds)
	ways := []string{}
	for s := range NumStitches {
		ways = append(ways, s.String())
	}
	require.Equal(t, []string{"none", "identity", "time", "run"}, ways)
}
