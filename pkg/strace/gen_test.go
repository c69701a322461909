// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/phasecol/phasecol/pkg/strace/internal/oracle"
)

// generator makes random logs that look like the runtime's, and worse.
type generator struct {
	*rand.Rand
	records int
	// calm logs can be read with pauses anywhere: nothing in them depends on
	// lines that lie close together being read together.
	calm bool
}

// style is a generation's dress.
type style struct {
	root, level string
	verbatim    bool // wall prefix and source location, several writes per line
	identity    bool // root attributes
	points      bool
	bare        bool
}

var styles = []style{
	{root: "run_prepared", verbatim: true},
	{root: "simpler_run", verbatim: true},
	{root: "simpler_run", level: "l3", verbatim: true, identity: true},
	{root: "simpler_run", level: "l3", identity: true},
	{root: "chip.run", level: "network1", identity: true},
	{root: "chip.run", level: "node", identity: true},
	{root: "chip.run", level: "node"},
	{root: "chip.run", level: "node", identity: true, points: true},
	{root: "chip.run", level: "node", points: true, bare: true},
}

// stream is what one process prints, line by line; a line is the writes it
// takes.
type stream [][]string

// job is one group of processes with a scope of its own.
type job struct {
	g     *generator
	style style
	scope string
	base  int
	// now is the monotonic clock.
	now int64
}

func (j *job) tick(n int64) int64 {
	j.now += 1 + j.g.Int64N(n)
	return j.now
}

func (j *job) line(out *stream, pid int, tid int64, inv uint64, depth int, name string, ts, dur int64, attrs string) {
	j.g.records++
	hid := []string{"0", "1", "8f3a11c07be2d945", "00ff"}[j.g.IntN(4)]
	body := fmt.Sprintf("[STRACE] v=1 pid=%d tid=%d inv=%d hid=%s depth=%d name=%s ts=%d dur=%d %s", pid, tid, inv, hid, depth, name, ts, dur, attrs)
	switch {
	case j.style.bare:
		*out = append(*out, []string{body + "\n"})
	case j.style.verbatim && !strings.HasPrefix(name, "l3."):
		prefix := fmt.Sprintf("[2026-08-%02d 10:00:%02d.%06d][T0x7f9c%02x][INFO_V9] ~StraceScope: ", 1+pid%28, j.now/1e9%60, j.now/1000%1e6, pid%256)
		*out = append(*out, []string{prefix, "[strace.h:131] " + body, "\n"})
	default:
		*out = append(*out, []string{fmt.Sprintf("[mono_ns=%d][T0x7f9c%02x][TIMING] emit_host_span: %s\n", ts+dur+1, pid%256, body)})
	}
}

// invocation prints one chip invocation in the runtime's order. cut stops it
// before its root.
func (j *job) invocation(out *stream, pid int, inv uint64, attrs string, cut bool) {
	var lines stream
	root, tid := j.style.root, int64(pid)
	rec := func(depth int, name string, ts, dur int64, attrs string) {
		if name != "" {
			name = "." + name
		}
		j.line(&lines, pid, tid, inv, depth, root+name, ts, dur, attrs)
	}
	begin := j.tick(1000)
	if j.style.points && j.g.IntN(2) == 0 {
		rec(1, "bind.overlap", j.tick(50), 0, "shares=0 r0=self/slot0 r1=peer~")
	}
	if j.g.IntN(4) == 0 {
		at := j.tick(100)
		rec(1, "bind.compatibility", at, j.tick(50)-at, "")
	}
	bind := j.tick(50)
	for _, part := range []string{"args", "prebuilt", "host_orch"}[:j.g.IntN(4)] {
		at := j.tick(200)
		rec(2, "bind."+part, at, j.tick(500)-at, []string{"", "ntensor=4", "tasks=128 heap_used=4096", "msg=a b c d=1"}[j.g.IntN(4)])
	}
	if j.g.IntN(8) == 0 { // not the runtime's own names: rules 2 and 3
		at := j.tick(100)
		j.line(&lines, pid, tid, inv, 1+j.g.IntN(4), []string{"core.load", "app.x", "app.x.y", "chip.other", ""}[j.g.IntN(5)], at, j.tick(100)-at, "k=v")
	}
	rec(1, "bind", bind, j.tick(300)-bind, "")
	failedPrepare := j.g.IntN(20) == 0
	if !failedPrepare {
		run := j.tick(100)
		if j.style.points {
			rec(2, "runner_run.aicpu_launch", j.tick(50), 0, "")
		}
		runEnd := j.tick(50_000)
		rec(1, "runner_run", run, runEnd-run, "")
		at := j.tick(50)
		rec(1, "validate", at, j.tick(80)-at, "")
		if j.g.IntN(10) > 0 {
			wall := j.g.Int64N((runEnd-run)*11/10 + 1) // now and then it does not fit
			device := "clk=dev"
			if j.style.points && j.style.identity {
				device = fmt.Sprintf("clk=dev dev_id=%d dev_cnt_hz=50000000", j.device(pid))
			}
			rec(2, "runner_run.device_wall", 0, wall+1, device)
			for _, phase := range []string{"preamble", "so_load", "orch", "sched", "task_slot_0"} {
				if j.g.IntN(3) > 0 && wall > 0 {
					ts := j.g.Int64N(wall)
					rec(3, "runner_run.device_wall."+phase, ts, j.g.Int64N(wall-ts+1), "clk=dev")
				}
			}
			if j.style.points && j.g.IntN(3) == 0 {
				rec(2, "runner_run.device_boundaries", j.tick(20), 0, "clk=dev dev_id=3 wo_rc=107002")
			}
		}
	}
	if cut {
		n := 1 + j.g.IntN(len(lines))
		j.g.records -= len(lines) - n
		*out = append(*out, lines[:n]...)
		return
	}
	if j.g.IntN(3) == 0 {
		at := j.tick(50)
		rec(1, "claim_release", at, j.tick(20)-at, "")
	}
	rec(0, "", begin, j.tick(100)-begin, attrs)
	if j.style.points && len(lines) > 2 && !j.g.calm && j.g.IntN(6) == 0 {
		// An asynchronous writer swaps neighbours.
		k := len(lines) - 2
		lines[k], lines[k+1] = lines[k+1], lines[k]
	}
	*out = append(*out, lines...)
}

// alone makes a process without parent.
func (j *job) alone(pid int) stream {
	var out stream
	if j.g.IntN(2) == 0 {
		out = append(out, j.anchor(pid))
	}
	if j.g.IntN(4) == 0 {
		at := j.tick(100)
		j.line(&out, pid, int64(pid), 0, 0, []string{"chip.prewarm.build", "simpler_prewarm.build", "prewarm.build"}[j.g.IntN(3)], at, j.tick(500)-at, "")
	}
	inv := uint64(0)
	for range 2 + j.g.IntN(12) {
		inv++
		attrs := ""
		if j.style.identity {
			attrs = fmt.Sprintf("run_id=0 dispatch_id=0 slot_id=%d generation=%d run_epoch=%d", inv%2, inv, inv)
		}
		switch j.g.IntN(12) {
		case 0: // died, and was opened again
			j.invocation(&out, pid, inv, attrs, true)
			inv = 0
			j.now += int64(j.g.IntN(2)) * 400 * ms
		case 1: // opened again
			j.invocation(&out, pid, inv, attrs, false)
			inv = 0
		case 2: // two at once on one thread
			var a, b stream
			begin := j.now
			j.invocation(&a, pid, inv, attrs, false)
			end := j.now
			j.now = max(begin, end-20_000)
			j.invocation(&b, pid, inv+1, attrs, false)
			j.now = max(j.now, end)
			inv++
			out = append(out, j.g.shuffle([]stream{a, b})...)
		case 3: // an event on its own
			at := j.tick(100)
			j.line(&out, pid, int64(pid)+1, 0, 0, "ext.pypto.decode_layer", at, j.g.Int64N(1000), []string{"layer=3", "traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "request_id=r1"}[j.g.IntN(3)])
		case 4: // losses
			if j.g.calm {
				inv--
				break
			}
			out = append(out, []string{fmt.Sprintf("[mono_ns=%d][T0xabc][ERROR] host_log_drops: [HOSTLOG_DROPS] v=1 pid=%d new=3 total=5 queue_full=5 claim_exhausted=0 output_failed=0 not_admitted=0\n", j.now, pid)})
			j.invocation(&out, pid, inv, attrs, false)
		default:
			j.invocation(&out, pid, inv, attrs, false)
		}
	}
	return out
}

func (j *job) anchor(pid int) []string {
	wall := int64(1_790_000_000_000_000_000) + j.now + int64(pid)
	return []string{fmt.Sprintf("[mono_ns=%d][T0x1][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=%d mono_ns=%d wall_ns=%d\n", j.now+3, pid, j.now, wall)}
}

// parentAndChips makes an L3 parent with n chips and their streams.
func (j *job) parentAndChips(n int) []stream {
	parent := j.base
	streams := make([]stream, n+1)
	out := &streams[0]
	*out = append(*out, j.anchor(parent))
	for w := range n {
		streams[1+w] = append(streams[1+w], j.anchor(parent+1+w))
		// Half of them are announced by their parent, in any order.
		ready := []string{fmt.Sprintf("[chip_process pid=%d dev=%d] ready\n", parent+1+w, j.device(parent+1+w))}
		if j.g.IntN(2) == 0 && !j.g.calm {
			*out = append(*out, ready)
		} else {
			streams[1+w] = append(streams[1+w], ready)
		}
	}
	runs := 1 + j.g.IntN(8)
	invs := make([]uint64, n)
	for r := 1; r <= runs; r++ {
		id := fmt.Sprintf("run_id=%d", r)
		node := func(out *stream, name string, ts, dur int64, attrs string) {
			j.line(out, parent, int64(parent)+j.g.Int64N(2), uint64(r), 0, j.style.level+"."+name, ts, dur, attrs)
		}
		begin := j.tick(1000)
		var facade, scheduler, tail stream
		for w := range n {
			at := j.tick(100)
			node(&facade, "submit", at, 1+j.g.Int64N(50), fmt.Sprintf("%s task_slot=%d group_index=0 group_size=1 worker_id=%d role=facade", id, w, w))
			task := fmt.Sprintf("%s task_slot=%d group_index=0 worker_id=%d dispatch_id=%d endpoint_kind=local_mailbox", id, w, w, r)
			at = j.tick(100)
			node(&scheduler, "frame_submit", at+2, 1+j.g.Int64N(20), task)
			node(&scheduler, "dispatch", at, 30+j.g.Int64N(20), task+fmt.Sprintf(" role=scheduler slot_id=0 generation=%d", r))
			j.tick(200)
			if j.g.IntN(15) > 0 {
				invs[w]++
				attrs := ""
				if j.style.identity && j.g.IntN(4) > 0 {
					attrs = fmt.Sprintf("run_id=%d dispatch_id=%d slot_id=0 generation=%d run_epoch=%d", r, r, r, invs[w])
				} else if j.style.identity {
					attrs = "run_id=0 dispatch_id=0 slot_id=0 generation=1 run_epoch=9"
				}
				j.invocation(&streams[1+w], parent+1+w, invs[w], attrs, j.g.IntN(25) == 0)
			}
			at = j.tick(100)
			node(&tail, "complete", at, 1+j.g.Int64N(5), task+" role=worker outcome=0")
		}
		node(&facade, "graph_build", begin, j.tick(100)-begin, id+" role=facade")
		at := j.tick(100)
		node(&tail, "post_fence_retirement", at, 1+j.g.Int64N(100), id+" slot_id=0 generation=1 role=facade")
		*out = append(*out, j.g.shuffle([]stream{facade, scheduler})...)
		if r == runs && j.g.IntN(4) == 0 {
			k := j.g.IntN(len(tail)) // the parent was killed
			j.g.records -= len(tail) - k
			tail = tail[:k]
		}
		*out = append(*out, tail...)
		if j.g.IntN(6) == 0 {
			at := j.tick(100)
			j.line(out, parent, int64(parent), 0, 0, j.style.level+".scheduler_loop", at, 1+j.g.Int64N(50), "drained=1 spins=4")
		}
		if j.g.IntN(6) == 0 {
			j.line(out, parent, int64(parent), 0, 0, "ext.app.step", begin+5, 3, id+" layer=1")
		}
		if j.g.IntN(8) == 0 {
			w := j.g.IntN(n) // outside any run
			invs[w]++
			j.invocation(&streams[1+w], parent+1+w, invs[w], "", false)
		}
	}
	return streams
}

// shuffle interleaves streams line by line, each in its own order.
func (g *generator) shuffle(streams []stream) stream {
	var out stream
	left := 0
	for _, s := range streams {
		left += len(s)
	}
	next := make([]int, len(streams))
	for ; left > 0; left-- {
		k := g.IntN(left)
		for i, s := range streams {
			if rest := len(s) - next[i]; k >= rest {
				k -= rest
				continue
			}
			out = append(out, s[next[i]])
			next[i]++
			break
		}
	}
	return out
}

// merge prints streams into one file. With tearing, writes of several
// processes mix; lines may be cut, repeated and surrounded by noise.
func (g *generator) merge(streams []stream, tear bool) string {
	var b strings.Builder
	if tear && g.IntN(2) == 0 {
		writes := make([]stream, len(streams))
		for i, s := range streams {
			for _, line := range s {
				for _, w := range line {
					writes[i] = append(writes[i], []string{w})
				}
			}
		}
		streams = writes
	}
	for _, line := range g.shuffle(streams) {
		text := strings.Join(line, "")
		if tear {
			switch g.IntN(60) {
			case 0:
				text = text[:g.IntN(len(text))] // cut, without line feed
			case 1:
				if !g.calm {
					text += text // repeated
				}
			case 2:
				b.WriteString([]string{
					"\n", "[TIMING] QPROBE: sim 3\n", "multi [STRACE] line\n", "[STRACE] v=2 pid=1 tid=1\n",
					"[STRACE] v=1 pid=1 tid=1 inv=99999999999999999999999 hid=0 depth=0 name=chip.run ts=1 dur=1 \n", "[ERROR] x: [head.cpp:66] \x00\xff[2026-",
				}[g.IntN(6)])
			case 3:
				text = strings.TrimSuffix(text, "\n") + "\r\n"
			}
		}
		b.WriteString(text)
	}
	return b.String()
}

// job makes the files of one random job in scope.
func (g *generator) job(scope string, base int) []oracle.File {
	j := &job{g: g, style: styles[g.IntN(len(styles))], scope: scope, base: base, now: 1e9 + g.Int64N(1e12)}
	var streams []stream
	if j.style.level != "" && g.IntN(3) > 0 {
		streams = j.parentAndChips(1 + g.IntN(4))
	} else {
		start := j.now
		for i := range 1 + g.IntN(4) {
			j.now = start
			streams = append(streams, j.alone(base+i))
		}
	}
	if g.IntN(2) == 0 {
		return []oracle.File{{Scope: scope, Text: g.merge(streams, true)}}
	}
	var files []oracle.File
	for _, s := range streams {
		files = append(files, oracle.File{Scope: scope, Text: g.merge([]stream{s}, g.IntN(2) == 0)})
	}
	return files
}

// device is the device of a chip process.
func (j *job) device(pid int) int { return 2 + 3*(pid-j.base) }
