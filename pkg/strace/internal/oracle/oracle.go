// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package oracle is a second implementation of docs/conventions.md for tests:
// it sees whole files at once, copies freely and compares everything with
// everything, so that it can be read beside the rules. It shares no code with
// package strace.
package oracle // import "github.com/phasecol/phasecol/pkg/strace/internal/oracle"

import (
	"slices"
	"strings"
)

// File is one log. Files of one scope are given in any order; the lines of
// one process lie in one file, or in several given in the order of writing.
type File struct {
	Scope string
	Text  string
}

// Options are those of the receiver.
type Options struct {
	Host   string
	Linger int64 // nanoseconds
	// HostClock is the wall clock minus the monotonic one; used where no
	// anchor is, or to vouch for one, when HasHostClock.
	HostClock    int64
	HasHostClock bool
}

// Event is a point.
type Event struct {
	Name  string
	Time  int64
	Attrs string
}

// Span is one span with all that the rules say of it.
type Span struct {
	Trace, ID, Parent string // hex
	Scope             string
	PID, TID          int64
	Inv               uint64
	HID               string
	Depth             int64
	Name, Stage       string
	TS                int64
	Start, End        int64
	Attrs             string
	Device            bool
	Source            string
	Error             int64 // nanoseconds, -1 unknown
	Slack             int64
	Fits              bool
	Synthetic         bool
	Guessed           bool
	Incomplete        bool
	Stitch            string // set on an invocation's root
	Events            []Event
}

// Result is what a set of files holds.
type Result struct {
	Spans    []Span
	Outcomes map[string]int
	Runs     int
	// Invocations counts those with a root.
	Invocations int
}

// process is one pid of a scope, with its records in print order.
type process struct {
	scope   string
	pid     int64
	anchors []anchor
	dev     int64 // -1: unknown
	records []*record
	drops   map[int]int64 // index into records → mono of the report before it
}

// unit is a group of records that make one tree.
type unit struct {
	proc     *process
	inv      uint64
	records  []*record
	root     int // index, -1: none
	lost     bool
	released bool
	born     int64
}

func (u *unit) start() int64 {
	if u.root >= 0 {
		return u.records[u.root].ts
	}
	first := int64(-1)
	for _, r := range u.records {
		if r.host() && (first < 0 || r.ts < first) {
			first = r.ts
		}
	}
	if first < 0 {
		return u.born
	}
	return first
}

func (u *unit) end() int64 {
	if u.root >= 0 {
		return u.records[u.root].end()
	}
	last := u.born
	for _, r := range u.records {
		if r.host() {
			last = max(last, r.end())
		}
	}
	return last
}

func (u *unit) attrs() map[string]string { return attributes(u.records[u.root].attrs) }

// Read applies the rules to files.
func Read(files []File, opt Options) Result {
	o := &reading{opt: opt, workers: map[string]int64{}, result: Result{Outcomes: map[string]int{}}}
	for _, f := range files {
		o.file(f)
	}
	var invocations, singles []*unit
	var runs []*run
	for _, p := range o.processes {
		i, s, r := o.group(p)
		invocations = append(invocations, i...)
		singles = append(singles, s...)
		runs = append(runs, r...)
	}
	for _, r := range runs {
		o.emitRun(r)
	}
	for _, u := range singles {
		o.emitSingle(u, runs)
	}
	for _, u := range invocations {
		o.emitInvocation(u, runs)
	}
	o.result.Runs = len(runs)
	return o.result
}

type reading struct {
	opt       Options
	processes []*process
	workers   map[string]int64 // by scope, once counted
	result    Result
}

func (o *reading) process(scope string, pid int64) *process {
	for _, p := range o.processes {
		if p.scope == scope && p.pid == pid {
			return p
		}
	}
	p := &process{scope: scope, pid: pid, dev: -1, drops: map[int]int64{}}
	o.processes = append(o.processes, p)
	return p
}

func (o *reading) file(f File) {
	lines := strings.Split(f.Text, "\n")
	for i, text := range lines {
		for _, it := range scan(text, i < len(lines)-1) {
			switch {
			case it.record != nil:
				p := o.process(f.Scope, it.record.pid)
				p.records = append(p.records, it.record)
			case it.anchor != nil:
				p := o.process(f.Scope, it.anchor.pid)
				p.anchors = append(p.anchors, *it.anchor)
			case it.ready != nil:
				o.process(f.Scope, it.ready.pid).dev = it.ready.dev
			case it.drops != nil:
				p := o.process(f.Scope, it.drops.pid)
				p.drops[len(p.records)] = max(p.drops[len(p.records)], it.drops.mono)
			default:
				o.result.Outcomes[it.outcome]++
			}
		}
	}
}

// group sorts a process's records into invocations, singles and runs.
func (o *reading) group(p *process) (invocations, singles []*unit, runs []*run) {
	var progress, dropped int64
	for i := 0; i <= len(p.records); i++ {
		if mono, reported := p.drops[i]; reported {
			dropped = max(dropped, mono)
			for _, u := range invocations {
				if u.root < 0 || progress-u.end() < o.opt.Linger {
					u.lost = true
				}
			}
			for _, r := range runs {
				r.lost = r.lost || !r.over()
			}
		}
		if i == len(p.records) {
			break
		}
		r := p.records[i]
		duplicate := false
		switch {
		case family(r.name) == "external" || level(r, "scheduler_loop"):
			singles = append(singles, &unit{proc: p, inv: r.inv, records: []*record{r}})
		case family(r.name) == "node":
			runs, duplicate = o.addToRun(p, runs, r, dropped)
		default:
			invocations, singles, duplicate = o.addToInvocation(p, invocations, singles, r, progress, dropped)
		}
		switch {
		case duplicate:
			o.result.Outcomes["duplicate"]++
		case r.point():
			o.result.Outcomes["point"]++
		default:
			o.result.Outcomes["span"]++
		}
		if r.host() {
			progress = max(progress, r.end())
		}
	}
	return invocations, singles, runs
}

// addToInvocation files r under its invocation: the open one of its number; or
// the one whose root was printed last, while the process has not printed
// linger beyond it, when r lies inside it; or a new one.
func (o *reading) addToInvocation(p *process, all, singles []*unit, r *record, progress, dropped int64) (invocations, alone []*unit, duplicate bool) {
	var open, closed *unit
	for _, u := range all {
		switch {
		case u.inv != r.inv:
		case u.root < 0 && !u.released:
			open = u
		case u.root >= 0 && progress-u.end() < o.opt.Linger:
			closed = u
		}
	}
	if open == nil && closed != nil {
		root := closed.records[closed.root]
		if !r.host() || (r.ts >= root.ts && r.end() <= root.end()) {
			if holds(closed.records, r) {
				return all, singles, true
			}
			closed.records = append(closed.records, r)
			return all, singles, false
		}
	}
	isRoot := r.depth == 0 && closes(open, r)
	if r.depth == 0 && !isRoot && !structured(r.name) {
		return all, append(singles, &unit{proc: p, inv: r.inv, records: []*record{r}}), false
	}
	if open != nil && holds(open.records, r) {
		return all, singles, true
	}
	if open != nil {
		if at := restartAt(open.records, r); at > 0 {
			all, open = split(all, open, at)
		}
	}
	if open == nil {
		open = &unit{proc: p, inv: r.inv, root: -1}
		if !r.host() {
			open.born = r.mono
			if open.born == 0 {
				open.born = progress
			}
		}
		all = append(all, open)
	}
	open.records = append(open.records, r)
	if !isRoot {
		return all, singles, false
	}
	if at := strangers(open.records); at > 0 {
		all, open = split(all, open, at)
	}
	open.root = len(open.records) - 1
	open.lost = open.lost || r.ts < dropped
	if p.dev < 0 {
		for _, x := range open.records {
			if chipStage(x.name) == "run.runner_run.device_wall" {
				if dev, ok := integer(attributes(x.attrs)["dev_id"]); ok && dev >= 0 && dev < 1<<31 {
					p.dev = dev
				}
				break
			}
		}
	}
	return all, singles, false
}

// closes tells whether the depth-0 record r ends the open invocation.
func closes(open *unit, r *record) bool {
	if s := chipStage(r.name); s == "run" || s == "prewarm.build" {
		return true
	}
	if structured(r.name) || open == nil {
		return false
	}
	return slices.ContainsFunc(open.records, func(x *record) bool { return strings.HasPrefix(x.name, r.name+".") })
}

// holds finds the very same record among the last 64.
func holds(records []*record, r *record) bool {
	for _, x := range records[max(0, len(records)-64):] {
		if x.name == r.name && x.ts == r.ts && x.dur == r.dur && x.tid == r.tid && x.depth == r.depth && x.device == r.device && x.hid == r.hid && x.attrs == r.attrs {
			return true
		}
	}
	return false
}

// restartAt finds where r's own invocation begins in records when r repeats a
// stage that occurs once and was over: behind the last such stage.
func restartAt(records []*record, r *record) int {
	if !once(r.name) {
		return 0
	}
	over, again := int64(0), false
	for _, x := range records {
		if once(x.name) && x.end() <= r.ts {
			over = max(over, x.end())
			again = again || x.name == r.name
		}
	}
	if !again {
		return 0
	}
	at := len(records)
	for at > 0 && records[at-1].host() && records[at-1].ts >= over {
		at--
	}
	return at
}

// strangers counts the records up to the last span that had ended when the
// root, the last record, began.
func strangers(records []*record) int {
	root := records[len(records)-1]
	n := 0
	for i, x := range records[:len(records)-1] {
		if x.host() && !x.point() && x.end() <= root.ts {
			n = i + 1
		}
	}
	return n
}

// split leaves the first n records of u behind, without root, and returns the
// unit with the rest.
func split(all []*unit, u *unit, n int) ([]*unit, *unit) {
	u.released = true
	rest := u.records[n:]
	u.records = u.records[:n:n]
	if len(rest) == 0 {
		return all, nil
	}
	next := &unit{proc: u.proc, inv: u.inv, root: -1, records: rest, lost: u.lost}
	return append(all, next), next
}
