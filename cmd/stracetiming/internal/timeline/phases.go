// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package timeline // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/timeline"

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/input"
	"github.com/phasecol/phasecol/pkg/strace"
)

// phase is a part of a bind that is no record of its own. Times are the
// host's monotonic clock.
type phase struct {
	name       string // below the bind's own
	attrs      string
	source     string
	start, end int64
	// tid is the thread it ran on, 0 for the bind's own.
	tid int64
}

const (
	// maxPending bounds the phases of a log that wait for their bind.
	maxPending = 1 << 16
	// maxRecords bounds the phases that files of them may hold.
	maxRecords = 1 << 20
	// maxLine bounds a line of such a file.
	maxLine = 64 << 20
)

// Phases finds the parts of a bind: those of --host-phase-records files by
// process and invocation, those of the log's own timing lines by time.
type Phases struct {
	byInvocation map[passKey][]pass
	passes       int
	pending      map[string][]phase // by scope
	waiting      int
	// Dropped counts phases that no bind took.
	Dropped int64
}

type passKey struct {
	pid int32
	inv uint64
}

// pass is what one prepare wrote.
type pass struct {
	phases []phase
	bound  interval
}

// NewPhases returns an empty store.
func NewPhases() *Phases {
	return &Phases{byInvocation: map[passKey][]pass{}, pending: map[string][]phase{}}
}

// passJSON is a line of a host_phase_records.jsonl.
type passJSON struct {
	PID     *int32       `json:"pid"`
	Inv     *uint64      `json:"inv"`
	Records []recordJSON `json:"records"`
}

type recordJSON struct {
	Phase  string          `json:"phase"`
	Start  *int64          `json:"start_ns"`
	End    *int64          `json:"end_ns"`
	TID    json.RawMessage `json:"tid"`
	Detail json.RawMessage `json:"detail"`
}

// Load reads a file of phases: JSON objects, one a line, or a log with bind
// phase lines. Lines that are neither are passed over, since the file may
// still be growing when it is copied.
func (p *Phases) Load(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the host phase records: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in := bufio.NewScanner(f)
	in.Buffer(nil, maxLine)
	var records int
	for in.Scan() {
		line := in.Bytes()
		if len(line) > 0 && line[0] == '{' {
			records += p.addPass(line)
		} else if bp, ok := strace.ParseBindPhase(line); ok {
			p.Add("", &input.Phase{Name: string(bp.Name), Attrs: string(bp.Attrs), Start: bp.Start, Dur: bp.Dur})
		}
		if records > maxRecords {
			return fmt.Errorf("reading %s: more than %d host phase records; give the part of the file that belongs to the log", path, maxRecords)
		}
	}
	if err := in.Err(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the host phase records in %s: %w", path, err)
	}
	return nil
}

func (p *Phases) addPass(line []byte) int {
	var in passJSON
	if json.Unmarshal(line, &in) != nil || in.PID == nil || in.Inv == nil {
		return 0
	}
	var out pass
	for _, r := range in.Records {
		if r.Start == nil || r.End == nil || r.Phase == "" || *r.Start < 0 || *r.End < *r.Start {
			continue
		}
		ph := phase{name: r.Phase, start: *r.Start, end: *r.End, source: "host_phase_records"}
		if len(r.Detail) > 0 {
			ph.attrs = "detail=" + string(r.Detail)
		}
		if tid, err := strconv.ParseInt(string(r.TID), 10, 64); err == nil && tid > 0 {
			ph.tid = tid
		}
		out.phases = append(out.phases, ph)
	}
	p.passes++
	if len(out.phases) == 0 {
		return 0
	}
	out.nest()
	key := passKey{*in.PID, *in.Inv}
	p.byInvocation[key] = append(p.byInvocation[key], out)
	return len(out.phases)
}

// nest names what happened inside the pass's host_orch below it and finds the
// pass's bounds.
func (p *pass) nest() {
	p.bound = interval{start: p.phases[0].start, end: p.phases[0].end}
	orch := slices.IndexFunc(p.phases, func(ph phase) bool { return ph.name == "host_orch" })
	for i := range p.phases {
		ph := &p.phases[i]
		p.bound.start, p.bound.end = min(p.bound.start, ph.start), max(p.bound.end, ph.end)
		if orch >= 0 && i != orch && p.phases[orch].start <= ph.start && ph.end <= p.phases[orch].end {
			ph.name = "host_orch." + ph.name
		}
	}
}

// Add keeps a phase of the log until the bind that follows takes it.
func (p *Phases) Add(scope string, bp *input.Phase) {
	if p.waiting == maxPending {
		for _, list := range p.pending {
			p.Dropped += int64(len(list))
		}
		clear(p.pending)
		p.waiting = 0
	}
	p.waiting++
	p.pending[scope] = append(p.pending[scope], phase{
		name: bp.Name, attrs: bp.Attrs, start: bp.Start, end: bp.Start + bp.Dur, source: "bind_phase",
	})
}

// take returns the phases of the bind of (pid, inv) in scope that ran from
// start to end. Where a file of records has them, the log's are left out.
func (p *Phases) take(scope string, pid int32, inv uint64, start, end int64) []phase {
	var found []phase
	for _, key := range [...]string{scope, ""} {
		if list := p.pending[key]; len(list) > 0 {
			rest := list[:0]
			for _, ph := range list {
				if start <= ph.start && ph.end <= end {
					found = append(found, ph)
					p.waiting--
				} else {
					rest = append(rest, ph)
				}
			}
			p.pending[key] = rest
		}
	}
	key := passKey{pid, inv}
	for i, ps := range p.byInvocation[key] {
		if start <= ps.bound.start && ps.bound.start < end {
			p.byInvocation[key] = slices.Delete(p.byInvocation[key], i, i+1)
			p.passes--
			return ps.phases
		}
	}
	return found
}

// Warnings tell what found no bind.
func (p *Phases) Warnings() []string {
	var w []string
	if p.passes > 0 {
		w = append(w, fmt.Sprintf("%d passes of the host phase records match no bind in the log and are left out: are they of the same run?", p.passes))
	}
	if n := p.Dropped + int64(p.waiting); n > 0 {
		w = append(w, fmt.Sprintf("%d bind phases lie in no bind of the log and are left out", n))
	}
	return w
}
