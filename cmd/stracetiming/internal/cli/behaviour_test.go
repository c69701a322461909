// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rec prints one record with the thread equal to the process.
func rec(pid, inv, depth int, name string, ts, dur int64, attrs string) string {
	end := ts + dur
	if strings.Contains(attrs, "clk=dev") {
		end = 1
	}
	return fmt.Sprintf("[mono_ns=%d][T0x1][TIMING] f: [STRACE] v=1 pid=%d tid=%d inv=%d hid=ab depth=%d name=%s ts=%d dur=%d %s\n",
		end, pid, pid, inv, depth, name, ts, dur, attrs)
}

// native prints one run of a pipeline: bind and device work as given.
func native(inv int, identity string, bind, device [2]int64, release int64) string {
	root := min(bind[0], device[0]) - 10
	return rec(1, inv, 1, "chip.run.bind", bind[0], bind[1]-bind[0], "") +
		rec(1, inv, 1, "chip.run.runner_run", device[0], device[1]-device[0], "") +
		rec(1, inv, 1, "chip.run.claim_release", release, 0, "") +
		rec(1, inv, 0, "chip.run", root, max(release, device[1])+10-root, identity)
}

func id(n int) string {
	return fmt.Sprintf("run_id=1 dispatch_id=%d run_epoch=%d slot_id=%d generation=%d", n, n, n%2, n)
}

func TestOverlapFailures(t *testing.T) {
	first := native(1, id(1), [2]int64{1000, 2000}, [2]int64{3000, 6000}, 6100)
	for _, c := range []struct{ name, second, says string }{
		{"passes", native(2, id(2), [2]int64{4000, 5000}, [2]int64{6200, 9000}, 9100), ""},
		{"touches only", native(2, id(2), [2]int64{6000, 6050}, [2]int64{6200, 9000}, 9100), "did not overlap"},
		{"runs before the release", native(2, id(2), [2]int64{4000, 5000}, [2]int64{6050, 9000}, 9100), "before the claim release"},
		{"out of order", native(2, id(1)[:len(id(1))-1]+"7", [2]int64{4000, 5000}, [2]int64{6200, 9000}, 9100), "launched out of order: sequence=1 after 1"},
		{"same identity", native(2, id(1), [2]int64{4000, 5000}, [2]int64{6200, 9000}, 9100), "same identity"},
		{"half an identity", native(2, "run_id=1 dispatch_id=2", [2]int64{4000, 5000}, [2]int64{6200, 9000}, 9100), "the root lacks run_epoch, slot_id, generation"},
		{"no number", native(2, strings.Replace(id(2), "slot_id=0", "slot_id=x", 1), [2]int64{4000, 5000}, [2]int64{6200, 9000}, 9100), "a whole number as slot_id"},
		{"a stage missing", rec(1, 2, 0, "chip.run", 7000, 10, id(2)), "no bind, runner_run, claim_release"},
		{"not a pipeline's", native(2, "", [2]int64{4000, 5000}, [2]int64{6200, 9000}, 9100), "no two complete pipelined runs"},
		{"no sequence", native(2, "run_id=0 dispatch_id=0 run_epoch=0 slot_id=0 generation=0", [2]int64{4000, 5000}, [2]int64{6200, 9000}, 9100), "no two complete pipelined runs"},
		{"a new beginning", native(1, id(1), [2]int64{900_000, 901_000}, [2]int64{902_000, 903_000}, 903_100), "no two complete pipelined runs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, stderr := run(t, "--assert-native-overlap", write(t, "x.log", first+c.second))
			if c.says == "" {
				assert.Equal(t, exitOK, code, stderr)
				return
			}
			assert.Equal(t, exitAssertion, code)
			assert.Contains(t, stderr, c.says)
		})
	}
}

func TestOldRootNamesInTheOverlapCheck(t *testing.T) {
	text := native(1, id(1), [2]int64{1000, 2000}, [2]int64{3000, 6000}, 6100) + native(2, id(2), [2]int64{4000, 5000}, [2]int64{6200, 9000}, 9100)
	code, stdout, _ := run(t, "--assert-native-overlap", write(t, "x.log", strings.ReplaceAll(text, "chip.run", "simpler_run")))
	assert.Equal(t, exitOK, code)
	assert.Equal(t, "Native overlap verified for 1 adjacent dispatch pair(s).\n", stdout)
}

// lanesOf draws a swimlane and returns the names of the lanes that the spans
// called name are on.
func lanesOf(t *testing.T, name string, logs ...string) []string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "x.json")
	code, _, stderr := run(t, append([]string{"--swimlane", out}, logs...)...)
	require.Equal(t, exitOK, code, stderr)
	doc := readTrace(t, out)
	validate(t, &doc)
	processes, threads := map[int64]string{}, map[track]string{}
	for _, e := range doc.TraceEvents {
		switch e.Name {
		case "process_name":
			processes[e.PID] = e.Args["name"].(string)
		case "thread_name":
			threads[track{e.PID, e.TID}] = e.Args["name"].(string)
		}
	}
	var got []string
	for _, e := range doc.TraceEvents {
		if e.Name == name && e.Ph != "M" {
			got = append(got, processes[e.PID]+" / "+threads[track{e.PID, e.TID}])
		}
	}
	return got
}

func TestPipelineSlotsGetLanesOnceTheyOverlap(t *testing.T) {
	// Two runs in a row, then two that overlap, then one alone.
	var text strings.Builder
	for n, ts := range []int64{1000, 3000, 5000, 6000, 9000} {
		text.WriteString(rec(1, n+1, 0, "chip.run", ts, 1500, id(n+1)))
	}
	assert.Equal(t, []string{
		"simpler chip child (pid=1) / chip child",
		"simpler chip child (pid=1) / chip child",
		"simpler chip child (pid=1) / pipeline slot 1 (tid 1)",
		"simpler chip child (pid=1) / pipeline slot 0 (tid 1)",
		"simpler chip child (pid=1) / pipeline slot 1 (tid 1)",
	}, lanesOf(t, "chip.run", write(t, "x.log", text.String())))
}

func TestRunsThatOverlapWithoutSlots(t *testing.T) {
	text := rec(1, 1, 0, "chip.run", 1000, 1500, "") + rec(1, 2, 0, "chip.run", 2000, 1500, "") + rec(1, 3, 0, "chip.run", 4000, 10, "")
	assert.Equal(t, []string{
		"simpler chip child (pid=1) / chip child",
		"simpler chip child (pid=1) / chip child, overlapping",
		"simpler chip child (pid=1) / chip child",
	}, lanesOf(t, "chip.run", write(t, "x.log", text)))
}

func TestSamePidInTwoLogs(t *testing.T) {
	text := rec(1, 1, 0, "chip.run", 1000, 1500, "")
	out := filepath.Join(t.TempDir(), "x.json")
	code, _, _ := run(t, "--swimlane", out, write(t, "a.log", text), write(t, "b.log", text))
	require.Equal(t, exitOK, code)
	doc := readTrace(t, out)
	validate(t, &doc)
	var pids []int64
	for _, e := range doc.TraceEvents {
		if e.Ph == "X" {
			pids = append(pids, e.PID)
		}
	}
	slices.Sort(pids)
	assert.Equal(t, []int64{1, 4194305}, pids, "two processes of two name spaces are not one")
}

func TestExternalProducers(t *testing.T) {
	own := rec(1, 0, 0, "ext.pypto.decode_layer", 500, 3000, "role=scheduler slot_id=1")
	assert.Equal(t, []string{"external producer pypto (pid=1) / ext pypto"}, lanesOf(t, "ext.pypto.decode_layer", write(t, "x.log", own)))
	shared := own + rec(1, 1, 0, "chip.run", 1000, 1500, "")
	assert.Equal(t, []string{"simpler chip child (pid=1) / chip child"}, lanesOf(t, "ext.pypto.decode_layer", write(t, "x.log", shared)),
		"a producer's role= names no lane of ours")
	unnamed := rec(1, 0, 0, "ext", 500, 3000, "")
	assert.Equal(t, []string{"simpler chip child (pid=1) / tid 1"}, lanesOf(t, "ext", write(t, "x.log", unnamed)))
}

func TestThreadsOfANode(t *testing.T) {
	node := func(tid int, name, attrs string, ts, dur int64) string {
		return strings.Replace(rec(9, 1, 0, name, ts, dur, attrs), "tid=9 ", fmt.Sprintf("tid=%d ", tid), 1)
	}
	text := node(1, "network1.submit", "run_id=1 task_slot=0 role=facade", 100, 10) +
		node(2, "network1.dispatch", "run_id=1 task_slot=0 worker_id=3 dispatch_id=1 role=scheduler", 120, 10) +
		node(3, "network1.complete", "run_id=1 task_slot=0 worker_id=3 dispatch_id=1 role=worker outcome=0", 150, 10) +
		node(4, "network1.activate", "run_id=1 task_slot=0", 151, 2) +
		node(2, "network1.scheduler_loop", "drained=1", 115, 60) +
		node(1, "network1.graph_build", "run_id=1 role=facade", 90, 50)
	log := write(t, "x.log", text)
	for name, want := range map[string]string{
		"network1.submit": "orchestrator / facade", "network1.dispatch": "scheduler", "network1.complete": "worker 3",
		"network1.activate": "worker", "network1.scheduler_loop": "scheduler", "network1.run": "L3 runs",
	} {
		assert.Equal(t, []string{"simpler node (pid=9) / " + want}, lanesOf(t, name, log), name)
	}
}

func TestRecordWorkersHaveALane(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.json")
	code, stdout, stderr := run(t, "--swimlane", out, "--host-phase-records", "testdata/records.jsonl", "testdata/phases.log")
	require.Equal(t, exitOK, code)
	assert.Contains(t, stdout, "4 host spans, 0 device spans placed, 2 bind phases, 4 host phase records")
	assert.Contains(t, stderr, "1 passes of the host phase records match no bind")
	assert.Contains(t, stderr, "1 bind phases lie in no bind")
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Contains(t, string(text), "graph record worker")
}

func TestBindPhasesOfAnotherLog(t *testing.T) {
	// The markers went to one file, the phase lines to another.
	text, err := os.ReadFile("testdata/phases.log")
	require.NoError(t, err)
	var markers, phases strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "bind phase=") {
			phases.WriteString(line)
		} else {
			markers.WriteString(line)
		}
	}
	out := filepath.Join(t.TempDir(), "x.json")
	code, stdout, _ := run(t, "--swimlane", out, "--host-phase-records", write(t, "phases.log", phases.String()), write(t, "x.log", markers.String()))
	require.Equal(t, exitOK, code)
	assert.Contains(t, stdout, "4 bind phases")
}

func TestRotatedLogGoesOnInTheNextFile(t *testing.T) {
	text := rec(1, 1, 1, "chip.run.bind", 1000, 100, "") + rec(1, 1, 1, "chip.run.runner_run", 1200, 100, "") + rec(1, 1, 0, "chip.run", 990, 500, "")
	cut := strings.Index(text, "\n") + 1
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "server.log.1"), []byte(text[:cut]), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "server.log"), []byte(text[cut:]), 0o600))
	code, stdout, _ := run(t, filepath.Join(dir, "server.log.1"), filepath.Join(dir, "server.log"))
	assert.Equal(t, exitOK, code)
	assert.Contains(t, stdout, "1 invocation(s)\n", "one, and whole")
	assert.Contains(t, stdout, "chip.run.bind: mean=0.1us (n=1)")
}

func TestLogsOfUnrelatedClocks(t *testing.T) {
	// The second machine booted later; the first one's last invocation stays
	// open. Neither may keep the other's from leaving.
	late := rec(1, 1, 0, "chip.run", 9_000_000_000_000, 100, "") + rec(1, 2, 1, "chip.run.bind", 9_000_000_001_000, 100, "")
	early := rec(1, 1, 0, "chip.run", 5000, 300, "") + rec(1, 2, 0, "chip.run", 6000, 300, "")
	code, stdout, _ := run(t, "--format", "csv", write(t, "late.log", late), write(t, "early.log", early))
	assert.Equal(t, exitOK, code)
	assert.Contains(t, stdout, "ab,,decode,4,1,chip.run,run,0,host,3,233,100,300,300,300,300\n")
}

func TestDuplicatesAndDeviceAtAnchors(t *testing.T) {
	line := rec(1, 1, 1, "chip.run.bind", 1000, 100, "")
	text := line + line + rec(1, 1, 0, "chip.run", 990, 500, "")
	_, stdout, stderr := run(t, write(t, "x.log", text))
	assert.Contains(t, stdout, "chip.run.bind: mean=0.1us (n=1)")
	assert.Contains(t, stderr, "1 records appear twice and count once")
	_, stdout, _ = run(t, "--dump", write(t, "x.log", text))
	var outcomes []string
	for l := range strings.Lines(stdout) {
		var got struct{ Outcome string }
		require.NoError(t, json.Unmarshal([]byte(l), &got))
		outcomes = append(outcomes, got.Outcome)
	}
	assert.Equal(t, []string{"span", "duplicate", "span"}, outcomes)
}

func TestDumpOfEverythingElse(t *testing.T) {
	text := "x [mono_ns=5][T0x1][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=7 mono_ns=5 wall_ns=1000\n" +
		"[chip_process pid=8 dev=3] ready\n" +
		"[mono_ns=7][T0x1][ERROR] f: [HOSTLOG_DROPS] v=1 pid=7 new=1 total=2 queue_full=2 claim_exhausted=0 output_failed=0 not_admitted=0\n" +
		"[CLOCK_ANCHOR] v=9 pid=7 mono_ns=5 wall_ns=1000\n" +
		"[STRACE] v=3 x[STRACE] v=1 pid=1 tid=2 inv=3 hid=0 depth=0 name=ext.a.b%20c ts=4 dur=0 k=%41~\n"
	code, stdout, _ := run(t, "--dump", write(t, "x.log", text))
	assert.Equal(t, exitOK, code)
	stdout = strings.ReplaceAll(stdout, `{"file":"`, "")
	var lines []string
	for l := range strings.Lines(stdout) {
		_, rest, _ := strings.Cut(l, `","offset":`)
		lines = append(lines, strings.TrimSpace(rest))
	}
	bad := strings.Index(text, "[STRACE] v=3")
	assert.Equal(t, []string{
		`42,"kind":"anchor","pid":7,"mono_ns":5,"wall_ns":1000}`,
		fmt.Sprintf(`%d,"kind":"ready","pid":8,"dev":3}`, strings.Index(text, "[chip")),
		fmt.Sprintf(`%d,"kind":"drops","pid":7,"new":1,"total":2,"queue_full":2,"claim_exhausted":0,"output_failed":0,"not_admitted":0}`, strings.Index(text, "[HOST")),
		fmt.Sprintf(`%d,"kind":"bad","outcome":"unknown_version","text":"[CLOCK_ANCHOR] v=9 pid=7 mono_ns=5 wall_ns=1000"}`, strings.Index(text, "[CLOCK_ANCHOR] v=9")),
		fmt.Sprintf(`%d,"kind":"bad","outcome":"unknown_version","text":"[STRACE] v=3 x[STRACE] v=1 pid=1 tid=2 inv=3 hid=0 depth=0 name=ext.a.b%%20c ts=4 dur=0 k=%%41~"}`, bad),
		fmt.Sprintf(`%d,"kind":"record","outcome":"point","generation":"G8-G9","v":1,"pid":1,"tid":2,"inv":3,"hid":"0","depth":0,"name":"ext.a.b c","ts":4,"dur":0,"attrs":{"k":"A~"},"raw_attrs":"k=%%41~","clock":"host","stage":"ext.a.b c","family":"external","producer":"a","truncated":true}`, bad+14),
	}, lines)
}
