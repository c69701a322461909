// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// marker reads a record the way the runtime's own tool documents it. The tests
// below recompute every number from what it finds, on their own.
var marker = regexp.MustCompile(`\[STRACE\] v=1 pid=(\d+) tid=(\d+) inv=(\d+) hid=([0-9a-f]+) depth=(\d+) name=([^\s\[]*) ts=(\d+) dur=(\d+)([^\[\n]*)`)

type rawRecord struct {
	pid, tid, inv, hid, name, attrs string
	depth                           int
	ts, dur                         int64
}

func samples(t *testing.T) []string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "..", "..", "shared", "samples")
	files, err := filepath.Glob(filepath.Join(dir, "*.log*"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skip("the folder of samples is not beside the repository")
	}
	return files
}

func text(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		in, err = gzip.NewReader(f)
		require.NoError(t, err)
	}
	b, err := io.ReadAll(in)
	require.NoError(t, err)
	return string(b)
}

func records(t *testing.T, path string) []rawRecord {
	t.Helper()
	var list []rawRecord
	for _, m := range marker.FindAllStringSubmatch(text(t, path), -1) {
		r := rawRecord{pid: m[1], tid: m[2], inv: m[3], hid: m[4], name: m[6], attrs: strings.TrimSpace(m[9])}
		var errs [3]error
		r.depth, errs[0] = strconv.Atoi(m[5])
		r.ts, errs[1] = strconv.ParseInt(m[7], 10, 64)
		r.dur, errs[2] = strconv.ParseInt(m[8], 10, 64)
		if errs != [3]error{} || r.ts > 1<<62 || r.dur > 1<<62 {
			continue // more than the grammar allows
		}
		list = append(list, r)
	}
	return list
}

var chipRoots = []string{"chip.run", "simpler_run", "run_prepared"}

// chip reports whether a record belongs to an invocation, and whether it is
// the root of one.
func chip(name string) (belongs, root bool) {
	for _, r := range chipRoots {
		if name == r {
			return true, true
		}
		if strings.HasPrefix(name, r+".") {
			return true, false
		}
	}
	return false, false
}

// expected is what a table must say of one stage.
type expected struct {
	n, mean, min, max int64
	median            float64
}

func describe(durs []int64) expected {
	slices.Sort(durs)
	e := expected{n: int64(len(durs)), min: durs[0], max: durs[len(durs)-1]}
	var sum int64
	for _, d := range durs {
		sum += d
	}
	e.mean = sum / e.n
	mid := len(durs) / 2
	e.median = float64(durs[mid])
	if len(durs)%2 == 0 {
		e.median = (float64(durs[mid-1]) + float64(durs[mid])) / 2
	}
	return e
}

// recompute finds every stage's numbers by callable, and how many invocations
// each has: roots, and what came behind the last root of its number.
func recompute(list []rawRecord) (stages map[string]map[string]expected, invocations map[string]int64) {
	durs := map[string]map[string][]int64{}
	invocations = map[string]int64{}
	open := map[[2]string]string{}
	for _, r := range list {
		belongs, root := chip(r.name)
		if !belongs {
			continue
		}
		if durs[r.hid] == nil {
			durs[r.hid] = map[string][]int64{}
		}
		durs[r.hid][r.name] = append(durs[r.hid][r.name], r.dur)
		key := [2]string{r.pid, r.inv}
		if root {
			invocations[r.hid]++
			delete(open, key)
		} else {
			open[key] = r.hid
		}
	}
	for _, hid := range open {
		invocations[hid]++
	}
	stages = map[string]map[string]expected{}
	for hid, byName := range durs {
		stages[hid] = map[string]expected{}
		for name, d := range byName {
			stages[hid][name] = describe(d)
		}
	}
	return stages, invocations
}

// run runs the command and returns what it printed.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = Main(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

type stageJSON struct {
	Name     string
	N        int64
	Mean     int64   `json:"mean_ns"`
	Min      int64   `json:"min_ns"`
	Max      int64   `json:"max_ns"`
	Median   float64 `json:"median_ns"`
	Exact    bool
	Depth    int
	Clock    string
	Percents map[string]float64 `json:"percentiles_ns"`
}

type tpotJSON struct {
	Mode      string
	Callables []struct {
		HID         string
		NodeHID     string `json:"node_hid"`
		Label       string
		Invocations int64
		Incomplete  int64
		Stages      []stageJSON
	}
	Warnings []string
}

func TestTableNumbersOnSamples(t *testing.T) {
	for _, path := range samples(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			code, out, _ := run(t, "--format", "json", path)
			require.Equal(t, exitOK, code)
			var got tpotJSON
			require.NoError(t, json.Unmarshal([]byte(out), &got))
			want, invocations := recompute(records(t, path))
			gotStages := map[string]map[string]expected{}
			gotInvocations := map[string]int64{}
			for _, c := range got.Callables {
				if c.Label == "prewarm" {
					continue
				}
				require.NotContains(t, gotStages, c.HID, "the samples have one callable by hid")
				gotStages[c.HID] = map[string]expected{}
				gotInvocations[c.HID] = c.Invocations
				for _, s := range c.Stages {
					assert.True(t, s.Exact)
					gotStages[c.HID][s.Name] = expected{s.N, s.Mean, s.Min, s.Max, s.Median}
				}
			}
			assert.Equal(t, want, gotStages)
			assert.Equal(t, invocations, gotInvocations)
		})
	}
}

var (
	titleLine = regexp.MustCompile(`^callable hid=(\S+)(?: node=\S+)? — (\d+) invocation`)
	rootLine  = regexp.MustCompile(`^ {2}(\S+): mean=([\d.]+)us min=([\d.]+)us max=([\d.]+)us$`)
	stageLine = regexp.MustCompile(`^ {4,}(\S+): mean=([\d.]+)us \(n=(\d+)\)$`)
)

func micros(ns int64) string { return strconv.FormatFloat(float64(ns)/1000, 'f', 1, 64) }

func TestTableTextOnSamples(t *testing.T) {
	for _, path := range samples(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			code, out, _ := run(t, path)
			require.Equal(t, exitOK, code)
			want, invocations := recompute(records(t, path))
			hid := ""
			stages := 0
			for line := range strings.Lines(out) {
				line = strings.TrimSuffix(line, "\n")
				if strings.HasPrefix(line, "prewarm") {
					hid = "" // set-ups have no expectation here
				}
				if m := titleLine.FindStringSubmatch(line); m != nil {
					hid = m[1]
					assert.Equal(t, strconv.FormatInt(invocations[hid], 10), m[2])
				}
				if hid == "" {
					continue
				}
				if m := rootLine.FindStringSubmatch(line); m != nil {
					e := want[hid][m[1]]
					assert.Equal(t, []string{micros(e.mean), micros(e.min), micros(e.max)}, m[2:], line)
					stages++
				}
				if m := stageLine.FindStringSubmatch(line); m != nil {
					e := want[hid][m[1]]
					assert.Equal(t, []string{micros(e.mean), strconv.FormatInt(e.n, 10)}, m[2:], line)
					stages++
				}
			}
			n := 0
			for _, s := range want {
				n += len(s)
			}
			assert.Equal(t, n, stages, "every stage has its line")
		})
	}
}

type roundsJSON struct {
	HID         string
	N           int
	Rounds      []map[string]float64
	Mean        map[string]float64
	TrimmedMean map[string]float64 `json:"trimmed_mean"`
}

// trimmedMean leaves out the ten lowest and highest.
func trimmedMean(v []int64) float64 {
	slices.Sort(v)
	var sum int64
	for _, x := range v[10 : len(v)-10] {
		sum += x
	}
	return float64(sum) / float64(len(v)-20)
}

func TestRoundsOnSamples(t *testing.T) {
	for _, path := range samples(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			code, out, _ := run(t, "--rounds-table", "--format", "json", path)
			require.Equal(t, exitOK, code)
			var got roundsJSON
			require.NoError(t, json.Unmarshal([]byte(out), &got))
			walls := map[string]map[string][]int64{}
			for _, r := range records(t, path) {
				for _, root := range chipRoots {
					if walls[r.hid] == nil {
						walls[r.hid] = map[string][]int64{}
					}
					switch {
					case r.name == root:
						walls[r.hid]["host_ns"] = append(walls[r.hid]["host_ns"], r.dur)
					case r.name == root+".runner_run.device_wall" && r.dur > 0:
						walls[r.hid]["device_ns"] = append(walls[r.hid]["device_ns"], r.dur)
					}
				}
			}
			most := 0
			for _, w := range walls {
				most = max(most, len(w["host_ns"]))
			}
			require.Equal(t, most, got.N)
			require.Len(t, got.Rounds, most)
			if most == 0 {
				return
			}
			want := walls[got.HID]
			host := want["host_ns"]
			var sum int64
			for _, v := range host {
				sum += v
			}
			assert.InDelta(t, float64(sum)/float64(len(host)), got.Mean["host_ns"], 0.001)
			var listed []int64
			for _, r := range got.Rounds {
				listed = append(listed, int64(r["host_ns"]))
			}
			slices.Sort(listed)
			slices.Sort(host)
			assert.Equal(t, host, listed)
			if most <= 20 {
				assert.Empty(t, got.TrimmedMean)
				return
			}
			assert.InDelta(t, trimmedMean(host), got.TrimmedMean["host_ns"], 0.001)
			if device := want["device_ns"]; len(device) > 20 {
				assert.InDelta(t, trimmedMean(device), got.TrimmedMean["device_ns"], 0.001)
			}
		})
	}
}

func TestDumpOnSamples(t *testing.T) {
	for _, path := range samples(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			code, out, _ := run(t, "--dump", path)
			require.Equal(t, exitOK, code)
			whole := text(t, path)
			want := records(t, path)
			n := 0
			for line := range strings.Lines(out) {
				var got struct {
					Kind, Outcome, HID, Name string
					Offset                   int64
					PID, TID, TS, Dur        int64
					Inv                      uint64
					Depth                    int
				}
				require.NoError(t, json.Unmarshal([]byte(line), &got), line)
				if got.Kind != "record" {
					continue
				}
				require.True(t, strings.HasPrefix(whole[got.Offset:], "[STRACE] v=1 pid="+strconv.FormatInt(got.PID, 10)+" "), line)
				w := want[n]
				n++
				same := w.hid == got.HID && w.inv == strconv.FormatUint(got.Inv, 10) && w.ts == got.TS && w.dur == got.Dur && w.depth == got.Depth &&
					(w.name == got.Name || strings.Contains(w.name, "%"))
				require.True(t, same, "%s: want %+v", line, w)
			}
			assert.Len(t, want, n)
		})
	}
}
