// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phasecol/phasecol/cmd/stracegen/truth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const start = "--start=2026-01-01T00:00:00Z"

// generate runs the command and returns its output.
func generate(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newCommand(&out, &errs)
	cmd.SetArgs(args)
	require.NoError(t, cmd.ExecuteContext(t.Context()), "%v", args)
	return out.String(), errs.String()
}

func fails(t *testing.T, args ...string) error {
	t.Helper()
	var out bytes.Buffer
	cmd := newCommand(&out, &out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	require.Error(t, err, "%v", args)
	return err
}

// logs reads all files under a folder, by path relative to it.
func logs(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	root := os.DirFS(dir)
	require.NoError(t, fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, path)
		out[path] = string(data)
		return err
	}))
	return out
}

func TestSameBytesEveryTime(t *testing.T) {
	run := func() (map[string]string, string, string) {
		dir := t.TempDir()
		generate(t, start, "--seed=5", "--requests=30", "--out="+dir+"/logs", "--truth="+dir+"/truth.json", "--otlp-file="+dir+"/spans.jsonl", "--noise=0.5", "-q")
		tr, err := os.ReadFile(dir + "/truth.json")
		require.NoError(t, err)
		sp, err := os.ReadFile(dir + "/spans.jsonl")
		require.NoError(t, err)
		return logs(t, dir+"/logs"), strings.ReplaceAll(string(tr), dir, "DIR"), string(sp)
	}
	l1, t1, s1 := run()
	l2, t2, s2 := run()
	require.Equal(t, l1, l2)
	require.Equal(t, t1, t2)
	require.Equal(t, s1, s2)
	require.Len(t, l1, 3, "engine and two chips")
	require.NotEmpty(t, s1)
}

func TestStandardOutput(t *testing.T) {
	out, summary := generate(t, start, "--requests=3", "--ranks=1")
	assert.True(t, strings.HasPrefix(out, "[mono_ns=1000"))
	assert.Equal(t, fmt.Sprintf("stracegen: %d lines in 0 files, 0 spans\n", strings.Count(out, "\n")), summary)
}

func TestDefaultsEndNow(t *testing.T) {
	dir := t.TempDir()
	before := time.Now()
	generate(t, "--requests=5", "--no-logs", "--truth="+dir+"/t.json", "-q")
	f, err := truth.Read(dir + "/t.json")
	require.NoError(t, err)
	last := time.Unix(0, f.Requests[len(f.Requests)-1].EndNS)
	assert.WithinDuration(t, time.Now(), last, time.Since(before)+time.Second)
	assert.False(t, last.After(time.Now()))
	assert.Empty(t, f.Files)
}

func TestRotationKeepsEverything(t *testing.T) {
	whole, cut := t.TempDir(), t.TempDir()
	args := []string{start, "--requests=40", "-q"}
	generate(t, append(args, "--out="+whole)...)
	generate(t, append(args, "--out="+cut+"/l", "--rotate-bytes=20000", "--truth="+cut+"/t.json", "--line-writes")...)
	f, err := truth.Read(cut + "/t.json")
	require.NoError(t, err)
	joined := map[string]string{}
	var records int64
	for _, lf := range f.Files {
		data, err := os.ReadFile(lf.Path)
		require.NoError(t, err)
		assert.Equal(t, int64(len(data)), lf.Bytes)
		assert.Equal(t, int64(bytes.Count(data, []byte("\n"))), lf.Lines)
		assert.Equal(t, int64(bytes.Count(data, []byte("[STRACE] v=1 "))), lf.Records)
		assert.LessOrEqual(t, len(data), 20_400)
		records += lf.Records
		name := regexp.MustCompile(`\.log(\.\d+)?$`).ReplaceAllString(filepath.Base(lf.Path), ".log")
		joined[name] += string(data)
	}
	assert.Equal(t, f.Totals.Records, records)
	assert.Greater(t, len(f.Files), 10)
	assert.Equal(t, logs(t, whole), joined, "in order of their numbers the pieces are the whole")

	// A later run appends, and its rotated files get new numbers.
	generate(t, append(args, "--out="+cut+"/l", "--rotate-bytes=20000")...)
	var after int
	for _, text := range logs(t, cut+"/l") {
		after += strings.Count(text, "[STRACE] v=1 ")
	}
	assert.Equal(t, 2*int(records), after)
}

func TestContainerLayouts(t *testing.T) {
	plain := t.TempDir()
	args := []string{start, "--requests=10", "-q", "--partial-bytes=100"}
	generate(t, append(args, "--out="+plain, "--single-file")...)
	want := logs(t, plain)["host.log"]
	require.NotEmpty(t, want)

	cri := t.TempDir()
	generate(t, append(args, "--out="+cri, "--format=cri", "--pod-namespace=ns", "--pod-name=p", "--pod-uid=u", "--container=c")...)
	var joined strings.Builder
	for line := range strings.Lines(logs(t, cri)["pods/ns_p_u/c/0.log"]) {
		m := regexp.MustCompile(`^(\S+) stderr ([FP]) (.*)\n$`).FindStringSubmatch(line)
		require.NotNil(t, m, line)
		_, err := time.Parse(time.RFC3339Nano, m[1])
		require.NoError(t, err)
		joined.WriteString(m[3])
		if m[2] == "F" {
			joined.WriteByte('\n')
		}
	}
	assert.Equal(t, want, joined.String())

	docker := t.TempDir()
	generate(t, append(args, "--out="+docker, "--format=docker")...)
	joined.Reset()
	files := logs(t, docker)
	require.Len(t, files, 1)
	for path, text := range files {
		require.Regexp(t, `^containers/[0-9a-f]{64}/[0-9a-f]{64}-json\.log$`, path)
		for line := range strings.Lines(text) {
			var rec struct{ Log string }
			require.NoError(t, json.Unmarshal([]byte(line), &rec))
			joined.WriteString(rec.Log)
		}
	}
	assert.Equal(t, want, joined.String())
}

func TestNoise(t *testing.T) {
	dir := t.TempDir()
	generate(t, start, "--requests=3", "--noise=99", "--out="+dir+"/l", "--truth="+dir+"/t.json", "-q")
	f, err := truth.Read(dir + "/t.json")
	require.NoError(t, err)
	total, markers := 0, 0
	for _, text := range logs(t, dir+"/l") {
		total += strings.Count(text, "\n")
		markers += strings.Count(text, "[STRACE] v=1 ")
	}
	assert.Equal(t, int(f.Totals.Records), markers)
	assert.Equal(t, int(f.Totals.Lines), total)
	other := f.Totals.Records + f.Totals.Anchors + 2 // two ready lines
	assert.Equal(t, 99*other, f.Totals.NoiseLines)
	assert.Equal(t, other+f.Totals.NoiseLines, f.Totals.Lines)
}

func TestBareFiles(t *testing.T) {
	dir := t.TempDir()
	generate(t, start, "--generation=9", "--bare", "--requests=3", "--out="+dir, "-q")
	for name, text := range logs(t, dir) {
		assert.Regexp(t, `^host-strace\.\d+\.log$`, name)
		for line := range strings.Lines(text) {
			assert.Regexp(t, `^(\[STRACE\] v=1 |\[chip_process )`, line)
		}
	}
}

func TestRealtimeAndStop(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs bytes.Buffer
	cmd := newCommand(&out, &errs)
	cmd.SetArgs([]string{"--realtime", "--duration=1h", "--rate=200", "--time-scale=0.05", "--out=" + dir + "/l", "--truth=" + dir + "/t.json"})
	done := make(chan error, 1)
	began := time.Now().UnixNano()
	go func() { done <- cmd.ExecuteContext(ctx) }()
	require.Eventually(t, func() bool {
		found, _ := filepath.Glob(dir + "/l/host.*.log")
		if len(found) == 0 {
			return false
		}
		st, err := os.Stat(found[0])
		return err == nil && st.Size() > 50_000
	}, 20*time.Second, 5*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	ended := time.Now().UnixNano()
	f, err := truth.Read(dir + "/t.json")
	require.NoError(t, err)
	assert.True(t, f.Interrupted)
	require.NotEmpty(t, f.Invocations)
	for _, inv := range f.Invocations {
		assert.GreaterOrEqual(t, inv.StartNS, began)
		assert.LessOrEqual(t, inv.EndNS, ended, "nothing is written before it happens")
	}
	compare(t, f, slices.Sorted(mapValues(logs(t, dir+"/l"))))
}

func TestSendsAndReportsLoss(t *testing.T) {
	var bodies atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if bodies.Add(1) > 2 {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer srv.Close()
	_, summary := generate(t, start, "--requests=3", "--no-logs", "--otlp="+srv.URL)
	assert.Regexp(t, `stracegen: 0 lines in 0 files, \d+ spans\n`, summary)
	assert.Equal(t, int64(2), bodies.Load(), "one batch per process")
	err := fails(t, start, "--requests=3", "--no-logs", "--otlp="+srv.URL)
	assert.Regexp(t, `\d+ of \d+ spans did not reach `+srv.URL, err.Error())
}

func TestBadFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"--forever: has no end":                  {"--forever", "--requests=3"},
		"--requests 0: give --duration":          {"--requests=0"},
		"--truth: would grow without bound":      {"--forever", "--truth=x"},
		"--prompt: token distribution \"x\"":     {"--prompt=x"},
		"--output: token distribution \"0\"":     {"--output=0"},
		"--mono-skew \"fast\": want a duration":  {"--mono-skew=fast"},
		"--start \"yesterday\": want RFC 3339":   {"--start=yesterday"},
		"--bare: only generation 9":              {"--bare"},
		"--interleave: generation 8 writes":      {"--interleave"},
		"interleave: lines only tear in one":     {"--interleave", "--generation=1", "--out=" + t.TempDir()},
		"--noise -1: must be between":            {"--noise=-1"},
		"--rotate-bytes and --partial-bytes":     {"--rotate-bytes=-1"},
		"format \"xml\": must be raw":            {"--format=xml"},
		"--time-zone: unknown time zone Nowhere": {"--time-zone=Nowhere"},
		"generation 12: must be":                 {"--generation=12"},
		"ranks 0: must be":                       {"--ranks=0"},
		"OTLP endpoint \"x\"":                    {"--otlp=x", start},
		"--otlp-file: open /nowhere":             {"--otlp-file=/nowhere/x", start},
		"--truth: open /nowhere":                 {"--truth=/nowhere/x", "--requests=1", "--no-logs", start},
		"unknown command":                        {"what"},
	} {
		assert.ErrorContains(t, fails(t, args...), want)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]struct {
		offset time.Duration
		ppm    float64
	}{"": {}, "2ms": {2 * time.Millisecond, 0}, "-50ppm": {0, -50}, "2ms,50ppm": {2 * time.Millisecond, 50}, "1.5ppm,-3us": {-3 * time.Microsecond, 1.5}} {
		offset, ppm, err := parseSkew(text)
		require.NoError(t, err)
		assert.Equal(t, want.offset, offset)
		assert.InDelta(t, want.ppm, ppm, 0)
	}
	ns, err := parseStart("1767225600000000001")
	require.NoError(t, err)
	assert.Equal(t, int64(1767225600000000001), ns)
	ns, err = parseStart("2026-01-01T00:00:00.000000001Z")
	require.NoError(t, err)
	assert.Equal(t, int64(1767225600000000001), ns)
}

func TestHelpHasExamples(t *testing.T) {
	out, _ := generate(t, "--help")
	for _, flag := range []string{"--seed", "--ranks", "--otlp", "--truth", "--rotate-bytes", "--mono-skew", "Examples:"} {
		assert.Contains(t, out, flag)
	}
}

func mapValues(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// The truth is what an independent reader finds in the log.
func TestTruthIsWhatTheLogSays(t *testing.T) {
	for g := 1; g <= 9; g++ {
		for _, extra := range [][]string{
			{"--runtime=tmr"},
			{"--runtime=hbg", "--task-slots=2"},
			{"--runtime=sim", "--level=none"},
			{"--reopen-every=15", "--run-fail-rate=0.02"},
			{"--pipeline=2", "--ranks=3"},
			{"--single-file", "--interleave"},
		} {
			if (g < 4 && extra[0] == "--pipeline=2") || (g > 3 && len(extra) > 1 && extra[1] == "--interleave") {
				continue
			}
			t.Run(fmt.Sprintf("g%d %v", g, extra), func(t *testing.T) {
				dir := t.TempDir()
				generate(t, append([]string{
					start, "--requests=12", "--generation=" + strconv.Itoa(g), "--out=" + dir + "/l", "--truth=" + dir + "/t.json", "-q",
				}, extra...)...)
				f, err := truth.Read(dir + "/t.json")
				require.NoError(t, err)
				compare(t, f, slices.Sorted(mapValues(logs(t, dir+"/l"))))
			})
		}
	}
}

var spanRE = regexp.MustCompile(`\[STRACE\] v=1 pid=(\d+) tid=\d+ inv=(\d+) hid=([0-9a-f]+) depth=(\d+) name=(\S+) ts=(\d+) dur=(\d+) ([^\[\n]*)`)

type invKey struct {
	pid   int32
	inv   uint64
	start int64
}

// compare reads texts in the plainest way: a root closes what its pid and inv
// have gathered.
func compare(t *testing.T, f *truth.File, texts []string) {
	t.Helper()
	want := map[invKey]*truth.Invocation{}
	for i := range f.Invocations {
		inv := &f.Invocations[i]
		want[invKey{inv.PID, inv.Inv, inv.StartMonoNS}] = inv
	}
	require.Len(t, want, len(f.Invocations))
	var records, runRecords int64
	found := 0
	for _, text := range texts {
		open := map[invKey]map[string]int64{}
		count := map[invKey]int{}
		for _, m := range spanRE.FindAllStringSubmatch(text, -1) {
			records++
			pid, _ := strconv.ParseInt(m[1], 10, 32)
			inv, _ := strconv.ParseUint(m[2], 10, 64)
			ts, _ := strconv.ParseInt(m[6], 10, 64)
			dur, _ := strconv.ParseInt(m[7], 10, 64)
			name := m[5]
			if f.Level != "" && strings.HasPrefix(name, f.Level+".") && !strings.HasSuffix(name, ".scheduler_loop") {
				runRecords++
			}
			if name != f.Root && !strings.HasPrefix(name, f.Root+".") {
				continue
			}
			k := invKey{int32(pid), inv, 0}
			if open[k] == nil {
				open[k] = map[string]int64{}
			}
			if dur > 0 {
				open[k]["run"+strings.TrimPrefix(name, f.Root)] += dur
			}
			count[k]++
			if m[4] != "0" {
				continue
			}
			w := want[invKey{int32(pid), inv, ts}]
			if w == nil {
				require.True(t, f.Interrupted, "an invocation the truth does not know")
			} else {
				found++
				require.Equal(t, w.Phases, open[k])
				require.Equal(t, w.Records, count[k])
				require.Equal(t, w.DurationNS, dur)
				require.Equal(t, w.HID, m[3])
				if w.DeviceBlock != nil {
					require.Equal(t, w.DeviceBlock.WallNS, open[k]["run.runner_run.device_wall"])
				}
			}
			delete(open, k)
			delete(count, k)
		}
		if !f.Interrupted {
			require.Empty(t, open)
		}
	}
	require.Equal(t, len(f.Invocations), found)
	var wantRun int64
	for _, r := range f.Runs {
		wantRun += int64(r.Records)
	}
	if !f.Interrupted {
		require.Equal(t, f.Totals.Records, records)
		require.Equal(t, wantRun, runRecords)
	}
}
