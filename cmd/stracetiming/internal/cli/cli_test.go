// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestRefusals(t *testing.T) {
	const log = "testdata/l3.log"
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"no log", nil, "which log?"},
		{"no such file", []string{"testdata/none.log"}, "testdata/none.log"},
		{"a directory without logs", []string{"testdata/golden"}, "no host.*.log files"},
		{"an unknown flag", []string{"--tpot", log}, "--tpot"},
		{"two modes", []string{"--tree", "--by-rank", log}, "tree"},
		{"hidden without overlap", []string{"--require-hidden-prepare", log}, "goes with --assert-native-overlap"},
		{"records without swimlane", []string{"--host-phase-records", log, log}, "goes with --swimlane"},
		{"a format", []string{"--format", "xml", log}, `not "xml"`},
		{"a color", []string{"--color", "blue", log}, `not "blue"`},
		{"a top", []string{"--top", "-1", log}, "not -1"},
		{"a percentile", []string{"--percentiles", "50,100", log}, "not 100"},
		{"a time zone", []string{"--timezone", "Nowhere/At_All", log}, "Nowhere/At_All"},
		{"one log to compare", []string{"--compare", log}, "takes two logs"},
		{"dump and a timeline", []string{"--dump", "--swimlane", "x", log}, "dump"},
		{"a file of records that is not there", []string{"--swimlane", filepath.Join(t.TempDir(), "x"), "--host-phase-records", "testdata/none", log}, "testdata/none"},
		{"an output that cannot be", []string{"--trace-out", "testdata/none/x.json", log}, "testdata/none/x.json"},
		{"another", []string{"--swimlane", "testdata/none/x.json", log}, "testdata/none/x.json"},
		{"something compared that is not there", []string{"--compare", log, "testdata/none"}, "testdata/none"},
		{"something dumped that is not there", []string{"--dump", "testdata/none"}, "testdata/none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := run(t, c.args...)
			assert.Equal(t, exitError, code)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, "stracetiming: ")
			assert.Contains(t, stderr, c.says)
		})
	}
}

func TestBrokenInput(t *testing.T) {
	junk := make([]byte, 300_000)
	for i := range junk {
		junk[i] = byte(i * i / 7)
	}
	for name, text := range map[string]string{
		"empty": "", "junk": string(junk), "no marker": "[a] [STRACE] is the tag\n[STRACE] v\n", "no line end": strings.Repeat("[", 200_000),
	} {
		for _, mode := range []string{"", "--tree", "--rounds-table", "--by-rank"} {
			t.Run(name+mode, func(t *testing.T) {
				args := []string{write(t, "log", text)}
				if mode != "" {
					args = append(args, mode)
				}
				code, stdout, _ := run(t, args...)
				assert.Equal(t, exitOK, code)
				assert.Equal(t, "No [STRACE] markers found.\n", stdout)
			})
		}
		t.Run(name+" checked", func(t *testing.T) {
			code, _, stderr := run(t, "--assert-native-overlap", write(t, "log", text))
			assert.Equal(t, exitAssertion, code)
			assert.Contains(t, stderr, "native overlap assertion failed")
		})
		t.Run(name+" drawn", func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "x.json")
			code, _, _ := run(t, "--swimlane", out, write(t, "log", text))
			require.Equal(t, exitOK, code)
			doc := readTrace(t, out)
			assert.Empty(t, doc.TraceEvents)
		})
	}
}

func TestCutGzipShowsWhatItHoldsAndFails(t *testing.T) {
	log, err := os.ReadFile("testdata/l3.log")
	require.NoError(t, err)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(log)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	whole := write(t, "whole", b.String())
	code, stdout, stderr := run(t, "--rounds-table", whole)
	assert.Equal(t, exitOK, code)
	assert.Contains(t, stdout, "(4 rounds)")
	assert.Empty(t, stderr)

	code, stdout, stderr = run(t, "--rounds-table", write(t, "cut", b.String()[:b.Len()-10]))
	assert.Equal(t, exitError, code)
	assert.Contains(t, stdout, "rounds)", "what could be read is shown")
	assert.Contains(t, stderr, "unexpected EOF")
}

func TestStandardInput(t *testing.T) {
	log, err := os.ReadFile("testdata/l3.log")
	require.NoError(t, err)
	var out, errs strings.Builder
	code := Main(t.Context(), []string{"--rounds-table", "-"}, bytes.NewReader(log), &out, &errs)
	assert.Equal(t, exitOK, code)
	assert.Contains(t, out.String(), "(4 rounds)")
}

// TestDirectoryEqualsOneLog splits a log by process, as newer runtimes write
// it, and wants the same of both, the ranks' steps among it.
func TestDirectoryEqualsOneLog(t *testing.T) {
	text, err := os.ReadFile("testdata/l3.log")
	require.NoError(t, err)
	dir := t.TempDir()
	files := map[string]*strings.Builder{}
	for line := range strings.Lines(string(text)) {
		pid := "100"
		for _, p := range []string{"201", "202"} {
			if strings.Contains(line, "v=1 pid="+p+" ") {
				pid = p
			}
		}
		if files[pid] == nil {
			files[pid] = &strings.Builder{}
		}
		files[pid].WriteString(line)
	}
	require.Len(t, files, 3)
	for pid, b := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "host."+pid+".log"), []byte(b.String()), 0o600))
	}
	for _, mode := range []string{"--tree", "--by-rank", "--rounds-table"} {
		_, want, _ := run(t, mode, "testdata/l3.log")
		code, got, stderr := run(t, mode, dir)
		assert.Equal(t, exitOK, code)
		assert.Equal(t, want, got)
		assert.Empty(t, stderr)
	}
}

func TestSameLogTwiceCountsOnce(t *testing.T) {
	_, want, _ := run(t, "testdata/l3.log")
	_, got, _ := run(t, "testdata/l3.log", "testdata/l3.log")
	assert.Equal(t, want, got)
}

func TestHelpAndCompletion(t *testing.T) {
	code, stdout, _ := run(t, "--help")
	assert.Equal(t, exitOK, code)
	for _, says := range []string{"Exit codes", "kubectl logs", "--require-hidden-prepare", "--percentiles"} {
		assert.Contains(t, stdout, says)
	}
	code, stdout, _ = run(t, "completion", "bash")
	assert.Equal(t, exitOK, code)
	assert.Contains(t, stdout, "stracetiming")
	_, stdout, _ = run(t, "__complete", "--format", "")
	assert.Contains(t, stdout, "table\njson\ncsv\n")
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	var out, errs strings.Builder
	code := Main(ctx, []string{"--trace-out", filepath.Join(dir, "x.json"), "--swimlane", filepath.Join(dir, "y.json"), "testdata/l3.log"}, strings.NewReader(""), &out, &errs)
	assert.Equal(t, exitError, code)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left, "no half-written file is left")
	code = Main(ctx, []string{"--dump", "testdata/l3.log"}, strings.NewReader(""), &out, &errs)
	assert.Equal(t, exitError, code)
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteErrors(t *testing.T) {
	for _, args := range [][]string{
		{"testdata/l3.log"},
		{"--tree", "testdata/l3.log"},
		{"--rounds-table", "--format", "csv", "testdata/l3.log"},
		{"--by-rank", "--format", "json", "testdata/l3.log"},
		{"--dump", "testdata/l3.log"},
		{"--compare", "testdata/l3.log", "testdata/pipeline.log"},
	} {
		var errs strings.Builder
		assert.Equal(t, exitError, Main(t.Context(), args, strings.NewReader(""), fullDisk{}, &errs), args)
		assert.Contains(t, errs.String(), "no space left")
	}
}

// host prints a log of n invocations of one callable.
func host(hid string, n int, dur func(i int) int64) string {
	var b strings.Builder
	ts := int64(1000)
	fmt.Fprintf(&b, "[mono_ns=1][T0x1][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=7 mono_ns=1 wall_ns=1795990000000000000\n")
	for i := range n {
		d := dur(i)
		fmt.Fprintf(&b, "[mono_ns=%d][T0x1][TIMING] f: [STRACE] v=1 pid=7 tid=7 inv=%d hid=%s depth=0 name=chip.run ts=%d dur=%d \n", ts+d, i+1, hid, ts, d)
		ts += d + 1000
	}
	return b.String()
}

func TestCompare(t *testing.T) {
	// Medians 1000 and 1100 of 100 each. The first's values are 951..1050, so
	// its interval reaches 10.5 up (value 61 of 100 is 1011); likewise down
	// for the second: √(10.5² + 10.5²) = 14.849.
	a := write(t, "a.log", host("aa", 100, func(i int) int64 { return int64(951 + i) }))
	b := write(t, "b.log", host("bb", 100, func(i int) int64 { return int64(1051 + i) }))
	code, out, stderr := run(t, "--compare", "--format", "json", a, b)
	require.Equal(t, exitOK, code)
	assert.Empty(t, stderr)
	var got struct {
		Changes []struct {
			HIDA    string  `json:"hid_a"`
			HIDB    string  `json:"hid_b"`
			Stage   string  `json:"stage"`
			A       float64 `json:"median_a_ns"`
			B       float64 `json:"median_b_ns"`
			Delta   float64 `json:"delta_ns"`
			Noise   float64 `json:"noise_ns"`
			Verdict string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Changes, 1)
	c := got.Changes[0]
	assert.Equal(t, []string{"aa", "bb", "run", "slower"}, []string{c.HIDA, c.HIDB, c.Stage, c.Verdict})
	assert.InDelta(t, 1000.5, c.A, 1e-9)
	assert.InDelta(t, 1100.5, c.B, 1e-9)
	assert.InDelta(t, 100, c.Delta, 1e-9)
	assert.InDelta(t, 14.849, c.Noise, 0.001)

	_, out, _ = run(t, "--compare", b, a)
	assert.Contains(t, out, "faster")
	_, out, _ = run(t, "--compare", a, a)
	assert.Contains(t, out, "within noise")
	few := write(t, "few.log", host("aa", 5, func(int) int64 { return 5000 }))
	_, out, _ = run(t, "--compare", a, few)
	assert.Contains(t, out, "too few")
	_, out, _ = run(t, "--compare", "--top", "5", a, a)
	assert.Contains(t, out, "No [STRACE]", "nothing stands out")
	_, out, _ = run(t, "--compare", "--format", "csv", a, b)
	assert.Contains(t, out, "decode,aa,bb,run,100,100,1000.5,1100.5,100,9.995,14.84")
	other := write(t, "other.log", host("aa", 9, func(int) int64 { return 1 })+strings.ReplaceAll(host("cc", 1, func(int) int64 { return 1 }), "pid=7 ", "pid=8 "))
	_, out, _ = run(t, "--compare", a, other)
	assert.Contains(t, out, "hid=cc (prefill), in B only")
	_, out, _ = run(t, "--compare", other, a)
	assert.Contains(t, out, "hid=cc (prefill), in A only")
}

func TestRanksWithoutL3(t *testing.T) {
	var b strings.Builder
	line := func(pid, inv int, ts, dur int64) {
		fmt.Fprintf(&b, "[mono_ns=%d][T0x1][TIMING] f: [STRACE] v=1 pid=%d tid=%d inv=%d hid=ab depth=0 name=chip.run ts=%d dur=%d \n", ts+dur, pid, pid, inv, ts, dur)
	}
	for step := range int64(3) {
		t0 := 1000 + step*1000
		line(1, int(step)+1, t0, 100)
		line(2, int(step)+1, t0+10, 300)
	}
	code, out, _ := run(t, "--by-rank", write(t, "x.log", b.String()))
	assert.Equal(t, exitOK, code)
	assert.Contains(t, out, "3 step(s), from invocations that overlap in time")
	assert.Contains(t, out, "pid 2             2       3            0.3            0.3              0.0           0.2  3 (100.0%)")
	assert.Contains(t, out, "pid 1             1       3            0.1            0.1              0.0           0.0  0 (0.0%)")
}

func TestUnnamedCallablesAreToldOf(t *testing.T) {
	text := strings.ReplaceAll(host("0", 3, func(int) int64 { return 10 }), "dur=10 ", "dur=10 run_id=0 dispatch_id=0 slot_id=0 generation=1 run_epoch=1")
	code, _, stderr := run(t, write(t, "x.log", text))
	assert.Equal(t, exitOK, code)
	assert.Contains(t, stderr, "3 invocations print hid=0")
	_, _, stderr = run(t, write(t, "x.log", host("0", 3, func(int) int64 { return 10 })))
	assert.Empty(t, stderr, "the simulator numbers its callables from 0")
}

func TestWarnings(t *testing.T) {
	text := "[mono_ns=1][T0x1][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=7 mono_ns=1 wall_ns=1795990000000000000\n" +
		host("aa", 1, func(int) int64 { return 10 }) +
		"[mono_ns=9][T0x1][ERROR] f: [HOSTLOG_DROPS] v=1 pid=7 new=3 total=5 queue_full=4 claim_exhausted=1 output_failed=0 not_admitted=0\n" +
		"[STRACE] v=2 pid=1\n[STRACE] v=1 pid=-1 tid=1\n[STRACE] v=1 pid=1"
	code, _, stderr := run(t, write(t, "x.log", text))
	assert.Equal(t, exitOK, code)
	assert.Contains(t, stderr, "warning: 3 of 4 [STRACE] records are left out: 1 cut short, 1 malformed, 1 of an unknown version\n")
	assert.Contains(t, stderr, "pid 7 printed 2 [CLOCK_ANCHOR] records")
	assert.Contains(t, stderr, "pid 7 lost 5 records before they reached the log (queue_full=4 claim_exhausted=1 output_failed=0 not_admitted=0)")
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	stop := drawProgress(&b, 1000, func() int64 { return 500 })
	stop() // it must end whatever it has drawn
	assert.NotContains(t, b.String(), "\n")

	stop = showProgress(&b, nil, func() int64 { return 0 })
	stop()
}

func TestColorSettings(t *testing.T) {
	assert.True(t, wantsColor("always", &bytes.Buffer{}))
	assert.False(t, wantsColor("never", os.Stdout))
	assert.False(t, wantsColor("auto", &bytes.Buffer{}))
	t.Setenv("NO_COLOR", "1")
	assert.False(t, wantsColor("auto", os.Stdout))
}
