// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
)

const (
	tmrHead = "bind.args bind.prebuilt bind "
	dw      = "runner_run.device_wall"
)

// expand writes ".x" for a device phase.
func expand(order string) string {
	var out []string
	for f := range strings.FieldsSeq(order) {
		if strings.HasPrefix(f, ".") {
			f = dw + f
		}
		out = append(out, f)
	}
	return strings.Join(out, " ")
}

// The print order of an invocation that is not a worker's first, the empty name
// being the root.
func TestPrintOrder(t *testing.T) {
	const device = dw + " .preamble .graph_build .config_validate .arena_wire .sm_reset .post_orch .orch .sched"
	for name, tc := range map[string]struct {
		generation int
		runtime    string
		slots      int
		want       string
	}{
		"g1":     {1, "tmr", 0, tmrHead + "runner_run validate " + dw + " .preamble .graph_build .post_orch .orch .sched"},
		"g2":     {2, "tmr", 0, tmrHead + "runner_run validate " + device},
		"g3":     {3, "tmr", 0, tmrHead + "runner_run validate " + device},
		"g4":     {4, "tmr", 0, tmrHead + "runner_run validate " + device},
		"g5":     {5, "tmr", 0, tmrHead + "runner_run validate " + device},
		"g6":     {6, "tmr", 0, tmrHead + "runner_run validate " + device},
		"g7":     {7, "tmr", 0, tmrHead + "runner_run validate " + device + " claim_release"},
		"g8":     {8, "tmr", 2, tmrHead + "runner_run validate " + device + " .task_slot_0 .task_slot_1 claim_release"},
		"g8 hbg": {8, "hbg", 1, "bind runner_run validate " + dw + " .task_slot_0 claim_release"},
		"g8 sim": {8, "sim", 0, tmrHead + "runner_run validate " + dw + " .config_validate .arena_wire .sm_reset .post_orch .orch .sched"},
		"g9": {9, "tmr", 0, "bind.overlap " + tmrHead + "publish_image stage_inputs prepare_execution runner_run.aicpu_launch runner_run validate " +
			device + " runner_run.device_boundaries claim_release"},
		"g9 hbg": {9, "hbg", 1, "bind.overlap bind.args bind.arena_build bind.static_arena bind.gm_heap bind.runtime_init bind.host_orch bind.shared_mem " +
			"bind.graph_upload bind.arena_h2d bind.host_view_close bind publish_image stage_inputs prepare_execution runner_run.aicpu_launch runner_run validate " +
			dw + " .task_slot_0 runner_run.device_boundaries claim_release"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := record(t, mixed(5, func(c *Config) {
				c.Generation, c.Runtime, c.TaskSlots, c.Requests, c.Ranks = tc.generation, tc.runtime, tc.slots, 20, 1
			}))
			got := chipNames(rec.records, logfmt.RootName(tc.generation))
			require.Len(t, got, len(rec.invs))
			loads := 0
			for _, names := range got {
				text := strings.Join(names, " ")
				if strings.Contains(text, ".so_load") {
					loads++
					text = strings.Replace(text, " "+dw+".so_load", "", 1)
				}
				require.Equal(t, expand(tc.want)+" ", text)
			}
			if tc.runtime == "tmr" {
				assert.Equal(t, 2, loads, "each callable is loaded once")
			}
		})
	}
}

// With two runs in flight, a thread prints the next run's preparation before
// this run's runner_run, and roots overlap.
func TestPipelinedOrder(t *testing.T) {
	rec := record(t, mixed(5, func(c *Config) { c.Pipeline, c.Ranks = 2, 1 }))
	overlaps, early := 0, 0
	for i := 1; i < len(rec.invs); i++ {
		if rec.invs[i].Start < rec.invs[i-1].End {
			overlaps++
			assert.GreaterOrEqual(t, rec.invs[i].DeviceStart, rec.invs[i-1].DeviceStart+rec.invs[i-1].Wall, "a device does one thing at a time")
		}
	}
	assert.Greater(t, overlaps, len(rec.invs)/2)
	lastBind := uint64(0)
	for _, r := range rec.records {
		switch r.Name {
		case "chip.run.bind":
			lastBind = r.Inv
		case "chip.run.runner_run":
			if lastBind == r.Inv+1 {
				early++
			}
		}
	}
	assert.Equal(t, overlaps, early)
	assert.Contains(t, string(rec.text), " name=chip.run.bind.compatibility ")
	assert.Contains(t, string(rec.text), " name=node.activate ")
	assert.Contains(t, string(rec.text), " prepare_only=1 ")
	assert.Contains(t, string(rec.text), " slot_id=1 ")
}

var nameRE = regexp.MustCompile(`\[STRACE\] v=1 pid=(\d+) tid=\d+ inv=(\d+) hid=\S+ depth=(\d+) name=(\S+) `)

// Real logs and generated ones agree on which of two records comes first.
func TestOrderMatchesRealLogs(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "..", "shared", "samples")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no samples of real logs beside this checkout")
	}
	for file, tc := range map[string]struct {
		generation int
		runtime    string
		exact      bool
	}{
		"real-logger-gen1-single-20.log":            {1, "tmr", true},
		"real-logger-gen2-single-20.log":            {2, "tmr", false},
		"real-logger-gen3-single-20.log":            {3, "tmr", false},
		"real-logger-gen4-single-20.log":            {4, "tmr", false},
		"real-logger-gen5-single-20.log":            {5, "tmr", false},
		"real-logger-gen6-single-20.log":            {6, "tmr", false},
		"real-logger-single-200.log":                {8, "tmr", false},
		"real-logger-hbg-30.log":                    {8, "hbg", false},
		"real-runtime-a2a3sim-tmr-l2-20.log":        {8, "sim", true},
		"real-runtime-a2a3sim-tmr-l3-2chips-10.log": {8, "sim", true},
	} {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(dir, file))
			require.NoError(t, err)
			root := logfmt.RootName(tc.generation)
			actual := map[string][]string{}
			var ends []string
			for _, m := range nameRE.FindAllStringSubmatch(string(data), -1) {
				if m[4] == root || strings.HasPrefix(m[4], root+".") {
					k := m[1] + "/" + m[2]
					actual[k] = append(actual[k], strings.TrimPrefix(strings.TrimPrefix(m[4], root), "."))
					if m[3] == "0" {
						ends = append(ends, k)
					}
				}
			}
			require.NotEmpty(t, ends)
			ours := chipNames(record(t, mixed(5, func(c *Config) {
				c.Generation, c.Runtime, c.Requests, c.TaskSlots = tc.generation, tc.runtime, 20, 16
				if tc.exact {
					c.TaskSlots = 0
				}
			})).records, root)
			mine := ours[len(ours)-1]
			place := map[string]int{}
			for i, n := range mine {
				place[n] = i
			}
			for _, k := range ends {
				if tc.exact {
					require.Equal(t, actual[k], mine)
				}
				last := -1
				for _, n := range actual[k] {
					at, ok := place[n]
					require.True(t, ok, "real logs have %q", n)
					require.Greater(t, at, last, "%q in %v", n, actual[k])
					last = at
				}
			}
		})
	}
}
