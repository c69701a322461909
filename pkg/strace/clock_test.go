// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const sec = int64(time.Second)

// wallBase is the offset of most clocks in these tests.
const wallBase = int64(1_790_000_000_000_000_000)

func anchorAt(mono, offset int64) Anchor { return Anchor{PID: 1, Mono: mono, Wall: mono + offset} }

func TestAnchorChoice(t *testing.T) {
	var c processClock
	_, ok := c.anchorAt(5)
	require.False(t, ok)
	// They arrive in any order; the last word on one instant counts.
	for _, a := range []Anchor{anchorAt(300*sec, 3), anchorAt(100*sec, 1), anchorAt(200*sec, 9), anchorAt(200*sec, 2)} {
		c.addAnchor(a)
	}
	require.Len(t, c.anchors, 3)
	for ts, offset := range map[int64]int64{
		0:           1, // before the first: the first
		100 * sec:   1, // at it
		199 * sec:   1,
		200 * sec:   2,
		250 * sec:   2,
		300*sec - 1: 2,
		300 * sec:   3,
		900 * sec:   3,
	} {
		p := c.place(ts, ts+1, DefaultClockSources(), HostClock{}, FileClock{})
		assert.Equal(t, ClockAnchor, p.source)
		assert.Equal(t, offset, p.offset, "ts %d", ts)
	}
	// 100 ppm of the distance, to either side.
	require.Equal(t, 10*ms, c.place(0, 1, DefaultClockSources(), HostClock{}, FileClock{}).err)
	require.Equal(t, 5*ms, c.place(250*sec, 251*sec, DefaultClockSources(), HostClock{}, FileClock{}).err)
	require.Zero(t, c.place(200*sec, 251*sec, DefaultClockSources(), HostClock{}, FileClock{}).err)
}

func TestAnchorsBounded(t *testing.T) {
	var c processClock
	for i := range int64(3 * maxAnchors) {
		c.addAnchor(anchorAt((i+1)*sec, i))
	}
	require.Len(t, c.anchors, maxAnchors)
	require.Equal(t, int64(2*maxAnchors+1)*sec, c.anchors[0].Mono, "the oldest go")
	c.addAnchor(anchorAt(1, 99))
	require.Equal(t, int64(2*maxAnchors+1)*sec, c.anchors[0].Mono, "an older one still does not enter")
	c.addAnchor(anchorAt(40*sec+1, 5))
	require.Len(t, c.anchors, maxAnchors)
	require.IsIncreasing(t, monos(c.anchors))
}

func monos(anchors []Anchor) (m []int64) {
	for _, a := range anchors {
		m = append(m, a.Mono)
	}
	return m
}

func TestClockOrder(t *testing.T) {
	host := HostClock{Mono: 1000 * sec, Offset: wallBase + 2, Valid: true}
	file := FileClock{Birth: wallBase, Written: wallBase + 2000*sec, LastEnd: 900 * sec, Mtime: wallBase + 900*sec + 4}
	var c processClock
	c.addAnchor(anchorAt(500*sec, wallBase+1))
	c.samples.add(500*sec, wallBase+3)
	for source, want := range map[ClockSource]placement{
		ClockAnchor: {wallBase + 1, 1 + 10_000, ClockAnchor}, // the host clock vouches for it to a nanosecond
		ClockRecord: {wallBase + 3, 1000, ClockRecord},
		ClockHost:   {wallBase + 2, 10_000, ClockHost},
		ClockMtime:  {wallBase + 4, sec, ClockMtime},
	} {
		order := []ClockSource{source}
		if source == ClockAnchor {
			order = append(order, ClockHost)
		}
		assert.Equal(t, want, c.place(800*sec, 801*sec, order, host, file), source)
	}
	// The first of the order that answers.
	require.Equal(t, ClockMtime, c.place(800*sec, 801*sec, []ClockSource{ClockMtime, ClockAnchor}, host, file).source)
	require.Equal(t, ClockRecord, (&processClock{samples: c.samples}).place(800*sec, 801*sec, DefaultClockSources(), host, file).source)
	require.Equal(t, ClockHost, (&processClock{}).place(800*sec, 801*sec, DefaultClockSources(), host, file).source)
	require.Equal(t, ClockMtime, (&processClock{}).place(800*sec, 801*sec, DefaultClockSources(), HostClock{}, file).source)
	require.Equal(t, ClockNone, (&processClock{}).place(800*sec, 801*sec, DefaultClockSources(), HostClock{}, FileClock{}).source)
	require.Equal(t, ClockNone, c.place(800*sec, 801*sec, nil, host, file).source)
}

func TestHostClockConditions(t *testing.T) {
	host := HostClock{Mono: 1000 * sec, Offset: wallBase, Valid: true}
	file := FileClock{Birth: wallBase + 100*sec, Written: wallBase + 900*sec}
	place := func(ts, end int64, host HostClock, file FileClock) ClockSource {
		return (&processClock{}).place(ts, end, []ClockSource{ClockHost}, host, file).source
	}
	require.Equal(t, ClockHost, place(200*sec, 201*sec, host, file))
	require.Equal(t, ClockNone, place(200*sec, 1000*sec+1, host, file), "in this host's future: another boot")
	require.Equal(t, ClockNone, place(99*sec, 201*sec, host, file), "older than the file")
	require.Equal(t, ClockHost, place(100*sec-jumpMin, 201*sec, host, file))
	require.Equal(t, ClockNone, place(200*sec, 901*sec, host, file), "newer than the file's last write")
	require.Equal(t, ClockNone, place(200*sec, 201*sec, HostClock{Mono: 1000 * sec, Offset: wallBase}, file))
	require.Equal(t, ClockNone, place(200*sec, 201*sec, host, FileClock{Written: file.Written}), "no birth, no proof")
}

func TestClockJump(t *testing.T) {
	host := HostClock{Mono: 10_000 * sec, Offset: wallBase, Valid: true}
	file := FileClock{Birth: 1, Written: wallBase + 20_000*sec}
	var c processClock
	c.addAnchor(anchorAt(0, wallBase))
	at := func(ts int64) placement { return c.place(ts, ts+1, DefaultClockSources(), host, file) }
	require.Equal(t, int64(10_000), at(5000*sec).err, "the host clock tightens 500 ms of drift")
	require.Zero(t, c.jumps)
	// The wall clock is set forward by a minute, or the machine slept: the
	// anchor is a minute off, which is said, and counted once.
	host.Offset += 60 * sec
	for range 3 {
		p := at(5000 * sec)
		require.Equal(t, ClockAnchor, p.source)
		require.Equal(t, wallBase, p.offset)
		require.Equal(t, 60*sec, p.err)
	}
	require.Equal(t, uint64(1), c.jumps)
	host.Offset -= 60 * sec
	require.Equal(t, int64(10_000), at(5000*sec).err)
	host.Offset -= sec
	require.Equal(t, sec, at(100*sec).err)
	require.Equal(t, uint64(2), c.jumps)
	// What drift explains is none: 400 ms in 5000 s.
	host.Offset = wallBase + 400*ms
	require.Equal(t, 400*ms+10_000, at(5000*sec).err)
	require.Equal(t, uint64(2), c.jumps)
}

func TestClockJumpFromSamples(t *testing.T) {
	var c processClock
	c.addAnchor(anchorAt(0, wallBase))
	order := []ClockSource{ClockAnchor, ClockRecord}
	// A few late lines are no jump.
	for i := range int64(jumpRun - 1) {
		c.samples.add(i*ms, wallBase+300*ms)
	}
	require.Zero(t, c.place(0, 1, order, HostClock{}, FileClock{}).err)
	require.Zero(t, c.jumps)
	c.samples.add(10*ms, wallBase+300*ms)
	require.Equal(t, 300*ms, c.place(0, 1, order, HostClock{}, FileClock{}).err)
	require.Equal(t, uint64(1), c.jumps)
	// Nothing is stamped early: that is one with the first sample.
	var d processClock
	d.addAnchor(anchorAt(0, wallBase))
	d.samples.add(0, wallBase-300*ms)
	require.Equal(t, 300*ms, d.place(0, 1, order, HostClock{}, FileClock{}).err)
	require.Equal(t, uint64(1), d.jumps)
	// Without the second source in the order it is not asked.
	require.Zero(t, d.place(0, 1, []ClockSource{ClockAnchor}, HostClock{}, FileClock{}).err)
}

func TestSampleWindow(t *testing.T) {
	var w sampleWindow
	_, _, ok := w.estimate()
	require.False(t, ok)
	// Delays of 0 to 9 ms: the least is the offset, the median the error.
	for i := range int64(1000) {
		w.add(i*ms, wallBase+i*7%10*ms)
	}
	offset, spread, ok := w.estimate()
	require.True(t, ok)
	require.Equal(t, wallBase, offset)
	require.Equal(t, 5*ms, spread)
	require.Zero(t, w.jumps)
	// Only the last 64 count.
	for i := range int64(maxSamples) {
		w.add(sec+i*ms, wallBase+20*ms)
	}
	offset, spread, _ = w.estimate()
	require.Equal(t, wallBase+20*ms, offset)
	require.Equal(t, int64(time.Microsecond), spread, "a stamp has its own resolution")
}

func TestSampleWindowStepForward(t *testing.T) {
	var w sampleWindow
	for i := range int64(100) {
		w.add(i*10*ms, wallBase)
	}
	// The clock is set forward by ten seconds. Until that is certain the error
	// covers it.
	for i := range int64(100) {
		w.add(sec+i*10*ms, wallBase+10*sec+i%3*ms)
		if offset, spread, _ := w.estimate(); i >= jumpRun-1 {
			require.Equal(t, wallBase, offset)
			require.GreaterOrEqual(t, spread, 10*sec)
		}
		require.Zero(t, w.jumps)
	}
	w.add(2*sec, wallBase+10*sec)
	offset, spread, _ := w.estimate()
	require.Equal(t, wallBase+10*sec, offset)
	require.LessOrEqual(t, spread, 2*ms)
	require.Equal(t, uint64(1), w.jumps)
}

// TestSampleWindowStall: the reader of a pipe stalls for five seconds and
// stamps what it finds then. That is no step of the clock.
func TestSampleWindowStall(t *testing.T) {
	var w sampleWindow
	for i := range int64(100) {
		w.add(i*10*ms, wallBase)
	}
	resumed := 6 * sec
	for mono := sec; mono < resumed; mono += 10 * ms {
		w.add(mono, wallBase+resumed-mono)
	}
	for i := range int64(100) {
		w.add(resumed+i*10*ms, wallBase)
	}
	offset, _, _ := w.estimate()
	require.Equal(t, wallBase, offset)
}

func TestSampleWindowStepBack(t *testing.T) {
	var w sampleWindow
	for i := range int64(100) {
		w.add(i*ms, wallBase)
	}
	w.add(101*ms, wallBase-sec)
	offset, _, _ := w.estimate()
	require.Equal(t, wallBase-sec, offset)
	require.Equal(t, uint64(1), w.jumps)
	require.Equal(t, 1, w.n)
}

func TestParseWall(t *testing.T) {
	zone := time.FixedZone("UTC+8", 8*3600)
	got, ok := parseWall([]byte("2026-06-28 22:06:28.255626"), zone)
	require.True(t, ok)
	require.Equal(t, time.Date(2026, 6, 28, 14, 6, 28, 255626000, time.UTC).UnixNano(), got)
	for _, bad := range []string{
		"2026-13-28 22:06:28.255626", "2026-00-28 22:06:28.255626", "2026-06-32 22:06:28.255626", "2026-06-00 22:06:28.255626",
		"2026-06-28 24:06:28.255626", "2026-06-28 22:60:28.255626", "2026-06-28 22:06:61.255626", "2026-06-28 22:06:28.25562x",
		"2260-06-28 22:06:28.255626", "x026-06-28 22:06:28.255626", "202--06-28 22:06:28.255626",
	} {
		_, ok = parseWall([]byte(bad), zone)
		require.False(t, ok, bad)
	}
}

func TestClockSourceNames(t *testing.T) {
	names := []string{}
	for s := range ClockMtime + 2 {
		names = append(names, s.String())
	}
	require.Equal(t, []string{"none", "anchor", "record", "host", "mtime", "none"}, names)
}

// TestWallPrefixPlaces: generations 1 to 5 stamp lines with local time; with
// the zone known that is a clock, each line bounding the offset from above.
func TestWallPrefixPlaces(t *testing.T) {
	zone := time.FixedZone("UTC+8", 8*3600)
	p := newPlayer(t, func(c *Config) { c.TimeZone = zone })
	begin := time.Date(2026, 7, 1, 2, 0, 0, 0, zone)
	for i := range int64(20) {
		ts := 1000*sec + i*sec
		emitted := begin.Add(time.Duration(ts-1000*sec+100_000) + time.Duration(3+i%5)*time.Microsecond)
		p.text("dir", "["+emitted.Format("2006-01-02 15:04:05.000000")+"][T0x1][TIMING] ~StraceScope: [strace.h:131] [STRACE] v=1 pid=5 tid=5 inv="+
			strconv.FormatInt(i+1, 10)+" hid=a depth=0 name=simpler_run ts="+strconv.FormatInt(ts, 10)+" dur=100000 \n")
	}
	p.flush()
	roots := p.byName("simpler_run")
	require.Len(t, roots, 20)
	for i, s := range roots[5:] {
		truth := begin.Add(time.Duration(i+5) * time.Second).UnixNano()
		require.Equal(t, "record", s.Source)
		require.LessOrEqual(t, abs(s.Start-truth), s.Error+3000, "a line is printed 3 us late at best")
		require.LessOrEqual(t, s.Error, int64(10_000))
	}
	// Without a zone the prefix is no clock.
	p = newPlayer(t)
	p.text("dir", "[2026-06-28 22:06:28.255626][T0x1][TIMING] f: [strace.h:131] [STRACE] v=1 pid=5 tid=5 inv=1 hid=a depth=0 name=simpler_run ts=1 dur=1 \n")
	p.flush()
	require.Equal(t, "none", p.only("simpler_run").Source)
}

func TestNoClockPolicies(t *testing.T) {
	line := mark(1, 1, 0, "chip.run", 5*sec, sec, "")
	p := newPlayer(t, func(c *Config) { c.OnNone = NoneRefuse })
	p.text("dir", line)
	p.flush()
	require.Empty(t, p.spans)
	require.Equal(t, uint64(1), p.asm.Stats().Unplaced)
	require.Zero(t, p.asm.Stats().HeldBytes)

	p = newPlayer(t, func(c *Config) { c.OnNone = NoneReadTime })
	p.now = wallBase
	p.text("dir", line)
	p.flush()
	s := p.only("chip.run")
	require.Equal(t, wallBase, s.End)
	require.Equal(t, wallBase-sec, s.Start)
	require.Equal(t, "none", s.Source)
	require.Equal(t, UnknownError, s.Error)
	require.Equal(t, uint64(1), p.asm.Stats().Unplaced)

	p = newPlayer(t, func(c *Config) { c.OnNone = NoneMonotonic })
	p.text("dir", line)
	p.flush()
	require.Equal(t, 5*sec, p.only("chip.run").Start)
}

// TestRefusedRun: nothing of a run without clock is sent; what comes after it
// is not placed in 1970 either.
func TestRefusedRun(t *testing.T) {
	p := newPlayer(t, func(c *Config) { c.OnNone = NoneRefuse })
	lines := twoRankRun(1)
	for _, l := range lines[4:] { // without anchors
		p.text("dir", l+"\n")
	}
	p.text("dir", mark(10, 1, 0, "node.frame_submit", 1030, 2, "run_id=1 task_slot=0 worker_id=0 dispatch_id=1"))
	p.flush()
	require.Empty(t, p.spans)
	s := p.asm.Stats()
	require.Equal(t, s.Records[OutcomeSpan]+s.Records[OutcomePoint]+1, s.Unplaced, "the run's root counts, too")
}

func TestDevicePlacement(t *testing.T) {
	at := func(lines ...string) *player {
		p := newPlayer(t)
		p.text("dir", anchorLine(1, 0, wallBase)+strings.Join(lines, ""))
		p.flush()
		return p
	}
	runner := mark(1, 1, 1, "chip.run.runner_run", 1000, 500, "")
	wall := mark(1, 1, 2, "chip.run.runner_run.device_wall", 0, 300, "clk=dev")
	orch := mark(1, 1, 3, "chip.run.runner_run.device_wall.orch", 40, 50, "clk=dev")
	launch := mark(1, 1, 2, "chip.run.runner_run.aicpu_launch", 1100, 0, "")
	root := mark(1, 1, 0, "chip.run", 900, 700, "")

	// The earliest legal point, and the room behind it.
	p := at(runner, wall, orch, root)
	w, o := p.only("chip.run.runner_run.device_wall"), p.only("chip.run.runner_run.device_wall.orch")
	require.Equal(t, []int64{wallBase + 1000, wallBase + 1300, 200}, []int64{w.Start, w.End, w.Slack})
	require.Equal(t, []int64{wallBase + 1040, wallBase + 1090, 200}, []int64{o.Start, o.End, o.Slack})
	require.True(t, w.Fits && o.Fits)
	require.Equal(t, p.only("chip.run").Error+200, w.Error, "it may lie anywhere in that room")

	// Not before the launch.
	p = at(launch, runner, wall, orch, root)
	w = p.only("chip.run.runner_run.device_wall")
	require.Equal(t, []int64{wallBase + 1100, wallBase + 1400, 100}, []int64{w.Start, w.End, w.Slack})

	// It does not fit: flagged, durations kept.
	p = at(runner, strings.Replace(wall, "dur=300", "dur=501", 1), root)
	w = p.only("chip.run.runner_run.device_wall")
	require.Equal(t, []int64{wallBase + 1000, wallBase + 1501, 0}, []int64{w.Start, w.End, w.Slack})
	require.False(t, w.Fits)
	require.Equal(t, uint64(1), p.asm.Stats().DeviceMisfits)

	// A sub-phase may reach beyond device_wall; it must fit as well.
	p = at(runner, wall, strings.Replace(orch, "ts=40", "ts=460", 1), root)
	require.False(t, p.only("chip.run.runner_run.device_wall").Fits)

	// Without runner_run: at the root's start.
	p = at(wall, root)
	w = p.only("chip.run.runner_run.device_wall")
	require.Equal(t, []int64{wallBase + 900, wallBase + 1200, 0}, []int64{w.Start, w.End, w.Slack})
	require.False(t, w.Fits)

	// Without any host record: where its line was printed, not at boot.
	p = at(wall)
	w = p.only("chip.run.runner_run.device_wall")
	require.Equal(t, wallBase+305, w.Start, "mono_ns of its line")
	require.True(t, w.Incomplete)
	require.False(t, w.Fits)
}
