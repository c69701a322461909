// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/pkg/strace/internal/oracle"
)

// treeOf is who hangs under whom, by the runtime's print order tables: stages,
// with the root of each generation in front. A stage that is not listed is
// topmost.
var treeOf = map[string]string{
	"run.bind":                                   "run",
	"run.bind.compatibility":                     "run", // depth 1 for all its name
	"run.bind.args":                              "run.bind",
	"run.bind.prebuilt":                          "run.bind",
	"run.bind.host_orch":                         "run.bind",
	"run.publish_image":                          "run",
	"run.stage_inputs":                           "run",
	"run.prepare_execution":                      "run",
	"run.runner_run":                             "run",
	"run.validate":                               "run",
	"run.claim_release":                          "run",
	"run.runner_run.device_wall":                 "run.runner_run",
	"run.runner_run.device_wall.preamble":        "run.runner_run.device_wall",
	"run.runner_run.device_wall.so_load":         "run.runner_run.device_wall",
	"run.runner_run.device_wall.graph_build":     "run.runner_run.device_wall",
	"run.runner_run.device_wall.config_validate": "run.runner_run.device_wall",
	"run.runner_run.device_wall.arena_wire":      "run.runner_run.device_wall",
	"run.runner_run.device_wall.sm_reset":        "run.runner_run.device_wall",
	"run.runner_run.device_wall.post_orch":       "run.runner_run.device_wall",
	"run.runner_run.device_wall.orch":            "run.runner_run.device_wall",
	"run.runner_run.device_wall.sched":           "run.runner_run.device_wall",
	"run.runner_run.device_wall.task_slot_0":     "run.runner_run.device_wall",
	"run.runner_run.device_wall.task_slot_15":    "run.runner_run.device_wall",
	"level.graph_build":                          "level.run",
	"level.submit":                               "level.graph_build",
	"level.dispatch":                             "level.run",
	"level.frame_submit":                         "level.dispatch",
	"level.complete":                             "level.dispatch",
	"level.post_fence_retirement":                "level.run",
}

// golden is what is known of a sample from its description and its text.
type golden struct {
	file string
	// kept samples lie in testdata; the others beside the repository.
	kept              bool
	invocations, runs uint64
	incomplete        int // topmost spans marked so
	torn, malformed   uint64
	// offset is wall_ns - mono_ns of each pid's anchor.
	offset map[int64]int64
	// at are spans by pid, inv and name, with the wall time of their start as
	// computed by hand: wall_ns + ts - mono_ns.
	at map[string]int64
}

var goldens = []golden{
	{
		file: "real-runtime-a2a3sim-tmr-l3-2chips-10.log", kept: true, invocations: 20, runs: 10,
		offset: map[int64]int64{16084: 1795989239099173370, 16155: 1795989239099173280, 16154: 1795989239099173260},
		at: map[string]int64{
			"16084 1 node.graph_build":  1795991309_125620515 + 2070188503221 - 2070026447145,
			"16154 1 chip.run":          1795991309_144675325 + 2070197345772 - 2070045502065,
			"16155 1 chip.run.bind":     1795991309_137337225 + 2070205137543 - 2070038163945,
			"16154 1 chip.run.validate": 1795991309_144675325 + 2070637107864 - 2070045502065,
			// The device block begins with runner_run.
			"16154 1 chip.run.runner_run.device_wall":      1795991309_144675325 + 2070409696127 - 2070045502065,
			"16154 1 chip.run.runner_run.device_wall.orch": 1795991309_144675325 + 2070409696127 + 11400 - 2070045502065,
		},
	},
	{
		file: "real-runtime-a2a3sim-tmr-two-workers-one-pid.log", kept: true, invocations: 6,
		offset: map[int64]int64{26631: 1795991493_079909111 - 2253980735780},
	},
	{
		file: "real-runtime-a2a3sim-killed-midrun.log", kept: true, invocations: 8, incomplete: 1,
		offset: map[int64]int64{27554: 1795991579_150975090 - 2340051801700},
		at:     map[string]int64{"27554 9 chip.run.bind": 1795991579_150975090 + 2341341452977 - 2340051801700},
	},
	{
		file: "real-logger-special.log", kept: true, malformed: 2,
		offset: map[int64]int64{14219: 1795989921_428428514 - 682329254423},
		at:     map[string]int64{"14219 0 ext.pypto.decode_layer": 1795989921_428428514 + 682329330946 - 682329254423},
	},
	{file: "synth-newest-upstream-2026-09.log", kept: true, invocations: 1, incomplete: 1},
	{file: "test-legacy-wallprefix-two-on-one-line.log", kept: true, invocations: 1, incomplete: 1},
	{file: "test-odd-prefixes-from-consumers.log", kept: true, invocations: 1, incomplete: 2},
	{file: "test-two-records-one-line-and-torn.log", kept: true, invocations: 1, incomplete: 1, torn: 1},
	{
		file: "real-runtime-a2a3sim-tmr-l2-20.log", invocations: 20,
		offset: map[int64]int64{14015: 1795991250_451382400 - 2011352208989},
		at:     map[string]int64{"14015 20 chip.run": 1795991250_451382400 + 2013163072598 - 2011352208989},
	},
	{file: "real-runtime-a2a3sim-hbg-l2-10.log", invocations: 10, offset: map[int64]int64{15162: 1795991272_917334381 - 2033818161020}},
	{file: "real-runtime-a2a3sim-hbg-l2-breakdown-5.log", invocations: 5, offset: map[int64]int64{17824: 1795991355_973848998 - 2116874675578}},
	{file: "real-logger-single-200.log", invocations: 200, offset: map[int64]int64{14131: 1795989919_796251777 - 680697077335}},
	{file: "real-logger-sim-20.log", invocations: 20, offset: map[int64]int64{14216: 1795989921_400201365 - 682301027022}},
	{file: "real-logger-hbg-30.log", invocations: 30, offset: map[int64]int64{14217: 1795989921_407869042 - 682308694811}},
	{file: "real-logger-pipeline2-overlap-40.log", invocations: 40, offset: map[int64]int64{14218: 1795989921_417388763 - 682318214651}},
	{
		file: "real-logger-prewarm-5.log", invocations: 5, offset: map[int64]int64{14224: 1795989921_438439486 - 682339265094},
		at: map[string]int64{"14224 0 chip.prewarm.build": 1795989921_438439486 + 682339342259 - 682339265094},
	},
	{file: "real-logger-gen1-single-20.log", invocations: 20},
	{file: "real-logger-gen2-single-20.log", invocations: 20},
	{file: "real-logger-gen3-single-20.log", invocations: 20},
	{file: "real-logger-gen4-single-20.log", invocations: 20},
	// Their l3 runs have no complete: they do not end.
	{file: "real-logger-gen5-single-20.log", invocations: 20, runs: 20, incomplete: 20},
	{file: "real-logger-gen6-single-20.log", invocations: 20, runs: 20, incomplete: 20, offset: map[int64]int64{14923: 1795989989_055506528 - 749956331935}},
	{file: "real-logger-gen1-fork4-500-pipe.log.gz", invocations: 2000},
	{file: "real-logger-gen6-fork4-500-pipe.log.gz", invocations: 2000, offset: map[int64]int64{
		14925: 1795989989_066650875 - 749967476322, 14928: 1795989989_068828919 - 749969655699, 14927: 1795989989_070364428 - 749971191218,
		14929: 1795989989_070535459 - 749971362249, 14930: 1795989989_073952296 - 749974779076,
	}},
}

var markerText = regexp.MustCompile(`\[STRACE\] v=1 pid=(\d+) tid=(\d+) inv=(\d+) hid=([0-9a-f]+) depth=\d+ name=([^ \[]*) ts=(\d+) dur=(\d+) ?([^\[\n\r]*)`)

// TestGolden holds every sample to what its description and a plain regular
// expression say.
func TestGolden(t *testing.T) {
	known := map[string]bool{}
	for _, g := range goldens {
		known[g.file] = true
		t.Run(g.file, func(t *testing.T) {
			path := filepath.Join("testdata", "samples", g.file)
			if !g.kept {
				path = filepath.Join(samplesDir, g.file)
				if _, err := os.Stat(samplesDir); err != nil {
					t.Skip("no samples beside the repository")
				}
			}
			g.check(t, readSample(t, path))
		})
	}
	if _, err := os.Stat(samplesDir); err == nil {
		for _, path := range sampleFiles(t) {
			require.True(t, known[filepath.Base(path)], "no expectation for sample %s", path)
		}
	}
}

func (g *golden) check(t *testing.T, text string) {
	p := newPlayer(t)
	p.text("dir", text)
	p.flush()
	p.accounted()
	require.Zero(t, p.repeated)
	stats := p.asm.Stats()
	require.Equal(t, g.invocations, stats.Invocations, "invocations")
	require.Equal(t, g.runs, stats.Runs, "runs")
	require.Equal(t, []uint64{g.torn, 0, g.malformed, 0}, stats.Records[OutcomeTorn:], "torn, unknown version, malformed, duplicate")
	require.Zero(t, stats.GuessedParents)

	g.checkCounts(t, p, text)
	incomplete := 0
	traces := map[string]string{} // of chip roots: pid, inv and start
	for _, s := range p.all() {
		if s.Incomplete {
			incomplete++
			require.Empty(t, s.Parent)
		}
		g.checkTree(t, p, s)
		g.checkTime(t, p, s)
		if s.Stage == "run" {
			key := strconv.FormatInt(s.PID, 10) + " " + strconv.FormatUint(s.Inv, 10) + " " + strconv.FormatInt(s.TS, 10)
			require.Empty(t, traces[key])
			traces[key] = s.Trace
		}
	}
	require.Equal(t, g.incomplete, incomplete, "incomplete")
	for key, start := range g.at {
		pid, rest, _ := strings.Cut(key, " ")
		inv, name, _ := strings.Cut(rest, " ")
		hit := false
		for _, s := range p.byName(name) {
			if strconv.FormatInt(s.PID, 10) == pid && strconv.FormatUint(s.Inv, 10) == inv {
				hit = true
				require.Equal(t, start, s.Start, key)
			}
		}
		require.True(t, hit, key)
	}
}

// checkCounts compares spans and events by name, and the sum of durations by
// name, with the text.
func (g *golden) checkCounts(t *testing.T, p *player, text string) {
	t.Helper()
	want, got := map[string]int{}, map[string]int{}
	wantDur, gotDur := map[string]int64{}, map[string]int64{}
	for _, m := range markerText.FindAllStringSubmatch(text, -1) {
		dur, err := strconv.ParseInt(m[7], 10, 64)
		require.NoError(t, err)
		if ts, err := strconv.ParseInt(m[6], 10, 64); err != nil || ts > MaxTS {
			continue
		}
		name := string(AppendDecoded(nil, []byte(m[5])))
		want[name]++
		wantDur[name] += dur
	}
	for _, s := range p.spans {
		if !s.Synthetic {
			got[s.Name]++
			gotDur[s.Name] += s.End - s.Start
		}
		for _, e := range s.Events {
			got[e.Name]++
			gotDur[e.Name] += 0
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, wantDur, gotDur, "durations are exact")
}

func (g *golden) checkTree(t *testing.T, p *player, s oracle.Span) {
	t.Helper()
	parent := p.spans[s.Trace+s.Parent]
	switch want, listed := treeOf[s.Stage]; {
	case listed && parent.ID != "":
		require.Equal(t, want, parent.Stage, s.Name)
		if s.Stage != "level.submit" { // the logger's driver stamps its first graph_build late
			require.LessOrEqual(t, parent.TS, s.TS+boolInt(s.Device)*parent.TS, "%s under %s", s.Name, parent.Name)
		}
		if want != "level.run" && !strings.HasPrefix(want, "level.") {
			require.Equal(t, []int64{s.PID, int64(s.Inv)}, []int64{parent.PID, int64(parent.Inv)})
		}
	case listed:
		require.True(t, s.Incomplete, "%s is topmost", s.Name)
	case s.Stage == "run" && s.Stitch != "none":
		require.Equal(t, "level.dispatch", parent.Stage)
	default:
		require.Empty(t, s.Parent, s.Name)
	}
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// checkTime places host spans by their anchors.
func (g *golden) checkTime(t *testing.T, p *player, s oracle.Span) {
	t.Helper()
	offset, anchored := g.offset[s.PID]
	if !anchored {
		require.Equal(t, "none", s.Source)
		return
	}
	require.Equal(t, "anchor", s.Source)
	if !s.Device {
		require.Equal(t, s.TS+offset, s.Start, s.Name)
		return
	}
	// The device block lies inside runner_run.
	for s.Stage != "run.runner_run" {
		up := p.spans[s.Trace+s.Parent]
		if s.Fits {
			require.GreaterOrEqual(t, s.Start, up.Start)
			require.LessOrEqual(t, s.End+boolInt(up.Stage == "run.runner_run")*s.Slack, up.End+boolInt(s.Stage != "run.runner_run.device_wall")*s.Slack)
		}
		s = up
	}
}

// TestGoldenStitching: in the sample of two chips, device 0 is pid 16154 and
// worker 0, device 1 is pid 16155 and worker 1, and invocation N of each is
// that of run N (by luck: nothing else ran).
func TestGoldenStitching(t *testing.T) {
	p := newPlayer(t)
	p.text("dir", readSample(t, filepath.Join("testdata", "samples", "real-runtime-a2a3sim-tmr-l3-2chips-10.log")))
	p.flush()
	roots := p.byName("chip.run")
	require.Len(t, roots, 20)
	for _, s := range roots {
		require.Equal(t, "time", s.Stitch)
		dispatch := p.spans[s.Trace+s.Parent]
		require.Equal(t, map[int64]string{16154: "0", 16155: "1"}[s.PID], worker(dispatch))
		require.Equal(t, s.Inv, dispatch.Inv)
		run := p.spans[s.Trace+dispatch.Parent]
		require.Equal(t, "node.run", run.Name)
		require.LessOrEqual(t, run.Start, s.Start)
		require.GreaterOrEqual(t, run.End, s.End)
	}
	traces := map[string]int{}
	for _, s := range p.spans {
		traces[s.Trace]++
	}
	// One made here, ten of the node, two invocations of thirteen.
	for _, n := range traces {
		assert.Equal(t, 1+10+26, n)
	}
	require.Len(t, traces, 10)
}

// TestGoldenTwoWorkers: (pid, inv) comes twice and makes six traces.
func TestGoldenTwoWorkers(t *testing.T) {
	p := newPlayer(t)
	p.text("dir", readSample(t, filepath.Join("testdata", "samples", "real-runtime-a2a3sim-tmr-two-workers-one-pid.log")))
	p.flush()
	invs := map[uint64]int{}
	traces := map[string]int{}
	for _, s := range p.spans {
		traces[s.Trace]++
		if s.Name == "chip.run" {
			invs[s.Inv]++
		}
	}
	require.Equal(t, map[uint64]int{1: 2, 2: 2, 3: 2}, invs)
	require.Equal(t, []int{13, 13, 13, 13, 13, 13}, slices.Collect(maps.Values(traces)))
}

// TestGoldenNewest checks the newest generation's sample value by value.
func TestGoldenNewest(t *testing.T) {
	p := newPlayer(t)
	p.text("dir", readSample(t, filepath.Join("testdata", "samples", "synth-newest-upstream-2026-09.log")))
	p.flush()
	events := map[string]string{}
	for _, s := range p.spans {
		for _, e := range s.Events {
			events[e.Name+"@"+strconv.FormatInt(e.Time, 10)] = s.Name
		}
	}
	require.Equal(t, map[string]string{
		"chip.run.bind.overlap@999100":                  "chip.run",
		"chip.run.joined_launch@2002900":                "chip.run",
		"chip.run.runner_run.aicpu_launch@2002500":      "chip.run.runner_run",
		"chip.run.runner_run.device_boundaries@2005325": "chip.run.runner_run",
	}, events)
	// Not before the launch at 2002500; 2000 long in runner_run to 2005000.
	wall, sched := p.only("chip.run.runner_run.device_wall"), p.only("chip.run.runner_run.device_wall.sched")
	require.Equal(t, []int64{2002500, 2004500, 500}, []int64{wall.Start, wall.End, wall.Slack})
	require.Equal(t, []int64{2003200, 2003700, 500}, []int64{sched.Start, sched.End, sched.Slack})
	require.Equal(t, "clk=dev dev_id=3 dev_start_cycle=81234567890 dev_end_cycle=81234567990 dev_cnt_hz=50000000", wall.Attrs)
	require.True(t, p.only("chip.run").Incomplete, "the runtime lost records of this process just then")
	for _, name := range []string{"node.scheduler_loop", "ext.pypto.decode_layer"} {
		require.Empty(t, p.only(name).Parent)
	}
	require.ElementsMatch(t, []TraceKind{TraceInvocation, TraceSingle, TraceSingle}, p.traces)
}

// TestGoldenSpecial checks encoding, truncation and extremes.
func TestGoldenSpecial(t *testing.T) {
	p := newPlayer(t)
	p.text("dir", readSample(t, filepath.Join("testdata", "samples", "real-logger-special.log")))
	p.flush()
	odd := p.only("ext.app.with space[x]=%\tq\n")
	require.Equal(t, []string{"msg", "a b%5Bc%5D%25d%09e%0Af", "utf8", "%E4%B8%AD"}, pairs(odd.Attrs))
	v, _ := Attr([]byte(odd.Attrs), "msg")
	require.Equal(t, "a b[c]%d\te\nf", string(AppendDecoded(nil, v)))
	require.Equal(t, "empty_name=1", p.only("").Attrs)
	require.Empty(t, p.byName("ext.app.nullattrs"), "ts + dur overflows")
	require.Empty(t, p.byName("ext.app.neg"))
	require.True(t, strings.HasSuffix(p.only("ext.app.attr_edge").Attrs, "y~"))
	require.Len(t, p.spans, 8)
}
