// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	type want struct{ stage, last, family, level, word, producer string }
	chip := func(stage, last string) want { return want{stage: stage, last: last, family: "chip"} }
	node := func(word, level, last string) want {
		return want{stage: "level." + last, last: last, family: "node", level: level, word: word}
	}
	for name, w := range map[string]want{
		"run_prepared":                    chip("run", "run_prepared"),
		"simpler_run":                     chip("run", "simpler_run"),
		"chip.run":                        chip("run", "run"),
		"run_prepared.bind.args":          chip("run.bind.args", "args"),
		"simpler_run.runner_run":          chip("run.runner_run", "runner_run"),
		"chip.run.runner_run.device_wall": chip("run.runner_run.device_wall", "device_wall"),
		"chip.run.publish_image":          chip("run.publish_image", "publish_image"),
		"simpler_prewarm.build":           chip("prewarm.build", "build"),
		"chip.prewarm.build":              chip("prewarm.build", "build"),
		"chip.running":                    chip("chip.running", "running"),
		"chip.other.x":                    chip("chip.other.x", "x"),
		"l3.submit":                       node("l3", "node", "submit"),
		"host.dispatch":                   node("host", "node", "dispatch"),
		"host.run":                        node("host", "node", "run"),
		"node.frame_submit":               node("node", "node", "frame_submit"),
		"network1.graph_build":            node("network1", "network1", "graph_build"),
		"network2.complete":               node("network2", "network2", "complete"),
		"network3.post_fence_retirement":  node("network3", "network3", "post_fence_retirement"),
		"node.scheduler_loop":             node("node", "node", "scheduler_loop"),
		"node.anything":                   node("node", "node", "anything"),
		"host.anything":                   {stage: "host.anything", last: "anything", family: "unknown"},
		"network4.submit":                 {stage: "network4.submit", last: "submit", family: "unknown"},
		"node":                            {stage: "node", last: "node", family: "unknown"},
		"core.tile":                       {stage: "core.tile", last: "tile", family: "core"},
		"ext.pypto.decode_layer":          {stage: "ext.pypto.decode_layer", last: "decode_layer", family: "external", producer: "pypto"},
		"ext..noprod":                     {stage: "ext..noprod", last: "noprod", family: "external"},
		"ext.alone":                       {stage: "ext.alone", last: "alone", family: "external", producer: "alone"},
		"ext":                             {stage: "ext", last: "ext", family: "unknown"},
		"simpler_runner":                  {stage: "simpler_runner", last: "simpler_runner", family: "unknown"},
		"":                                {family: "unknown"},
		"prewarm.build":                   {stage: "prewarm.build", last: "build", family: "unknown"},
	} {
		for _, verbatim := range []bool{false, true} {
			n := NewNames().Intern([]byte(name), verbatim)
			got := want{n.Stage, n.Last, n.Family, n.Level, n.LevelWord, n.Producer}
			assert.Equal(t, w, got, "%q", name)
			assert.Equal(t, name, n.Text)
			assert.False(t, n.Truncated)
		}
	}
}

func TestNameDecoding(t *testing.T) {
	names := NewNames()
	require.Equal(t, "ext.app.with space[x]=%\tq\n", names.Intern([]byte("ext.app.with%20space%5Bx%5D%3D%25%09q%0A"), false).Text)
	require.Equal(t, "a%20b", names.Intern([]byte("a%20b"), true).Text)
	require.Equal(t, "a b", names.Intern([]byte("a%20b"), false).Text)
	require.Equal(t, "a\uFFFDb", names.Intern([]byte("a%FFb"), false).Text)
	cut := names.Intern([]byte("ext.app.abc~"), false)
	require.True(t, cut.Truncated)
	require.Equal(t, "ext.app.abc~", cut.Text)
	require.False(t, names.Intern([]byte("ext.app.abc~"), true).Truncated, "old generations do not cut")
}

// TestNamesAreShared: the tree compares pointers, so one name is one Name,
// with its prefixes, however it was met.
func TestNamesAreShared(t *testing.T) {
	names := NewNames()
	a := names.Intern([]byte("chip.run.bind.args"), false)
	b := names.Intern([]byte("chip.run.bind"), true)
	require.Same(t, a.prefixes[0], b)
	require.Same(t, a, names.Intern([]byte("chip.run.bind.args"), true))
	require.Len(t, a.prefixes, 3)
	require.Equal(t, "chip.run", a.prefixes[1].Text)
	require.NotSame(t, names.Intern([]byte("a%20b"), true), names.Intern([]byte("a%20b"), false))
}

// TestNamesBounded: a hostile log does not grow the table without end; what is
// beyond it is still classified.
func TestNamesBounded(t *testing.T) {
	names := NewNames()
	for i := range 3 * maxNames {
		names.Intern([]byte("ext.p.n"+strconv.Itoa(i)), i%2 == 0)
	}
	require.LessOrEqual(t, len(names.encoded), maxNames)
	require.LessOrEqual(t, len(names.verbatim), maxNames)
	require.Equal(t, "external", names.Intern([]byte("ext.q.late"), false).Family)
	long := strings.Repeat("x.", 5000)
	require.Empty(t, names.Intern([]byte(long), false).prefixes)
	require.Equal(t, long, names.Intern([]byte(long), false).Text)
}
