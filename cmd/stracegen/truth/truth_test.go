// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package truth

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUnion(t *testing.T) {
	for _, tc := range []struct {
		in   []Interval
		want int64
	}{
		{nil, 0},
		{[]Interval{{5, 5}}, 0},
		{[]Interval{{5, 9}}, 4},
		{[]Interval{{5, 9}, {9, 12}}, 7},
		{[]Interval{{8, 12}, {5, 9}}, 7},
		{[]Interval{{0, 100}, {10, 20}, {90, 110}}, 110},
		{[]Interval{{-10, -5}, {20, 30}, {0, 1}}, 16},
		{[]Interval{{1, 2}, {1, 2}, {1, 2}}, 1},
	} {
		assert.Equal(t, tc.want, Union(tc.in), "%v", tc.in)
	}
}

func TestClip(t *testing.T) {
	for _, tc := range []struct {
		start, end int64
		want       Interval
		ok         bool
	}{
		{0, 100, Interval{10, 20}, true},
		{15, 100, Interval{15, 20}, true},
		{0, 15, Interval{10, 15}, true},
		{20, 30, Interval{20, 20}, false}, // half open: touching is not overlapping
		{0, 10, Interval{10, 10}, false},
	} {
		got, ok := Interval{10, 20}.Clip(tc.start, tc.end)
		assert.Equal(t, tc.ok, ok)
		if ok {
			assert.Equal(t, tc.want, got)
		}
	}
}

// block makes an invocation with a device block placed at start+10 and really at start+20.
func block(pid int32, start, end, wall int64) Invocation {
	return Invocation{PID: pid, StartNS: start, EndNS: end, DeviceBlock: &DeviceBlock{
		WallNS: wall, PlacedStartNS: start + 10, PlacedEndNS: start + 10 + wall, StartNS: start + 20, EndNS: start + 20 + wall,
	}}
}

func TestFill(t *testing.T) {
	f := File{
		Level: "node",
		Invocations: []Invocation{
			block(1, 0, 100, 60),               // [0,100) placed [10,70) true [20,80)
			block(2, 20, 120, 50),              // [20,120) placed [30,80) true [40,90)
			block(1, 200, 300, 40),             // [200,300) placed [210,250) true [220,260)
			{PID: 2, StartNS: 310, EndNS: 320}, // no device
		},
		Runs: []Run{{StartNS: 0, EndNS: 130, Invocations: []int{0, 1}}, {StartNS: 195, EndNS: 325, Invocations: []int{2, 3}}},
		Requests: []Request{{Sequences: []Sequence{{Phases: []Phase{
			{Name: "prefill_waiting", StartNS: 0, EndNS: 50},
			{Name: "prefill_forward", StartNS: 50, EndNS: 130},
			{Name: "decode_forward", StartNS: 130, EndNS: 315, Own: []int{1}},
		}}}}},
	}
	f.Fill()
	q := f.Requests[0].Sequences[0]
	assert.Zero(t, q.Phases[0].HostRuns, "nothing runs for a request that waits")

	p := q.Phases[1]
	assert.Equal(t, []int{0, 1}, p.Invocations)
	assert.Equal(t, []int{0}, p.Runs)
	assert.Equal(t, 2, p.HostRuns)
	assert.Equal(t, 1, p.Steps)
	assert.Equal(t, int64(70), p.HostBusyNS)   // [50,120)
	assert.Equal(t, int64(30), p.DeviceBusyNS) // [50,80)
	assert.Equal(t, int64(40), p.DeviceTrueNS) // [50,90)
	assert.Equal(t, int64(10), p.EngineGapNS)

	d := q.Phases[2]
	assert.Equal(t, []int{2, 3}, d.Invocations)
	assert.Equal(t, []int{1}, d.Runs)
	assert.Equal(t, int64(105), d.HostBusyNS) // [200,300) and [310,315)
	assert.Equal(t, int64(40), d.DeviceBusyNS)
	assert.Equal(t, int64(40), d.DeviceTrueNS)
	assert.Equal(t, int64(80), d.EngineGapNS)

	assert.Equal(t, [3]int64{2, 105, 40}, [3]int64{int64(d.OwnHostRuns), d.OwnHostBusyNS, d.OwnDeviceBusyNS})
	assert.Zero(t, p.OwnHostRuns, "its own run is not named")

	assert.Equal(t, [5]int64{4, 2, 175, 70, 90}, [5]int64{int64(q.HostRuns), int64(q.Steps), q.HostBusyNS, q.DeviceBusyNS, q.EngineGapNS})
	assert.Equal(t, Totals{Invocations: 4, Runs: 2, Requests: 1}, f.Totals)

	// Without records of runs, a step is an invocation of the busiest process.
	f.Level = ""
	f.Invocations[3].PID = 1
	f.Fill()
	assert.Equal(t, 1, f.Requests[0].Sequences[0].Phases[1].Steps)
	assert.Equal(t, 2, f.Requests[0].Sequences[0].Phases[2].Steps)
	assert.Equal(t, 4, f.Requests[0].Sequences[0].HostRuns, "filled anew, not added up")
}

func TestWriteAndRead(t *testing.T) {
	flags := byte(0)
	f := &File{
		Version: Version, Seed: 1<<64 - 1, Generation: 8, Root: "chip.run", Pod: &Pod{UID: "u"},
		Invocations: []Invocation{block(1, 0, 100, 60)},
		Requests:    []Request{{ID: "x", ParentFlags: &flags}},
	}
	var buf bytes.Buffer
	require.NoError(t, f.Write(&buf))
	path := filepath.Join(t.TempDir(), "truth.json")
	require.NoError(t, os.WriteFile(path, buf.Bytes(), 0o600))
	got, err := Read(path)
	require.NoError(t, err)
	assert.Equal(t, f, got)
}

func TestReadRejects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "truth.json")
	_, err := Read(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = Read(path)
	require.ErrorContains(t, err, path)
	require.NoError(t, os.WriteFile(path, []byte(`{"version":99}`), 0o600))
	_, err = Read(path)
	require.ErrorContains(t, err, "version 99, this package reads version 1")
}
