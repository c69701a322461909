// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package dump prints everything that the marker language knows in a log, one
// JSON object a line.
package dump // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/dump"

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/input"
	"github.com/phasecol/phasecol/cmd/stracetiming/internal/unit"
	"github.com/phasecol/phasecol/pkg/strace"
)

// head is what every line of the dump begins with.
type head struct {
	File string `json:"file"`
	// Offset is the marker's place in the file, decompressed.
	Offset int64 `json:"offset"`
	// Kind is record, anchor, drops, ready, bind_phase or bad.
	Kind string `json:"kind"`
}

// record is a marker's fields, and what follows from its name. Times are
// nanoseconds.
type record struct {
	head
	// Outcome is what became of it: span, point or duplicate.
	Outcome string `json:"outcome"`
	// Generation is the runtime's, as far as the line tells.
	Generation string         `json:"generation"`
	V          int            `json:"v"`
	PID        int32          `json:"pid"`
	TID        int64          `json:"tid"`
	Inv        uint64         `json:"inv"`
	HID        string         `json:"hid"`
	Depth      int32          `json:"depth"`
	Name       string         `json:"name"`
	TS         int64          `json:"ts"`
	Dur        int64          `json:"dur"`
	Attrs      map[string]any `json:"attrs"`
	RawAttrs   string         `json:"raw_attrs"`
	Clock      string         `json:"clock"`
	Stage      string         `json:"stage"`
	Family     string         `json:"family"`
	Level      string         `json:"level,omitempty"`
	Producer   string         `json:"producer,omitempty"`
	Truncated  bool           `json:"truncated,omitempty"`
	Mono       int64          `json:"mono_ns,omitempty"`
	Wall       string         `json:"wall_prefix,omitempty"`
}

type anchor struct {
	head
	PID    int32 `json:"pid"`
	MonoNS int64 `json:"mono_ns"`
	WallNS int64 `json:"wall_ns"`
}

type drops struct {
	head
	PID            int32  `json:"pid"`
	New            uint64 `json:"new"`
	Total          uint64 `json:"total"`
	QueueFull      uint64 `json:"queue_full"`
	ClaimExhausted uint64 `json:"claim_exhausted"`
	OutputFailed   uint64 `json:"output_failed"`
	NotAdmitted    uint64 `json:"not_admitted"`
}

type ready struct {
	head
	PID int32 `json:"pid"`
	Dev int32 `json:"dev"`
}

type bindPhase struct {
	head
	Phase   string         `json:"phase"`
	StartNS int64          `json:"start_ns"`
	DurNS   int64          `json:"dur_ns"`
	Attrs   map[string]any `json:"attrs"`
}

// bad is a marker that is no record.
type bad struct {
	head
	// Outcome is torn, malformed or unknown_version.
	Outcome string `json:"outcome"`
	Text    string `json:"text"`
}

// maxText bounds the text printed of what is no record.
const maxText = 1024

// Write prints all that r finds, in order.
func Write(ctx context.Context, w io.Writer, groups []input.Group, r *input.Reader) error {
	d := &dumper{out: bufio.NewWriterSize(w, 64<<10), groups: groups, positions: map[*input.Source]*position{}}
	d.enc = json.NewEncoder(d.out)
	d.enc.SetEscapeHTML(false)
	cfg := strace.DefaultConfig()
	cfg.OnNone = strace.NoneMonotonic
	cfg.Emit = func(*strace.Trace) {}
	// The assembler is asked for one thing only: whether it has a record
	// already.
	asm, err := strace.NewAssembler(cfg, r.Names)
	if err != nil {
		return fmt.Errorf("setting up the assembler: %w", err)
	}
	d.asm = asm
	r.BindPhases = true
	for n := 0; ; n++ {
		source, kind, group := r.Next()
		if source == nil {
			break
		}
		if n%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := d.item(source, kind, group); err != nil {
			return fmt.Errorf("writing the dump: %w", err)
		}
	}
	if err := d.out.Flush(); err != nil {
		return fmt.Errorf("writing the dump: %w", err)
	}
	return nil
}

type dumper struct {
	out    *bufio.Writer
	enc    *json.Encoder
	asm    *strace.Assembler
	groups []input.Group
	now    int64
	// positions finds markers again in each source's current line.
	positions map[*input.Source]*position
}

// position is how far the current line was gone through.
type position struct {
	line int64
	at   int
}

// tags are what each kind begins with.
func tag(kind strace.Kind) string {
	switch kind {
	case strace.KindAnchor:
		return "[CLOCK_ANCHOR] v="
	case strace.KindDrops:
		return "[HOSTLOG_DROPS] v="
	case strace.KindReady:
		return "[chip_process pid="
	case input.KindBindPhase:
		return "bind phase="
	default:
		return "[STRACE] v="
	}
}

// find locates the item that s holds: the next tag of its kind. before is the
// text between it and the item before it.
func (d *dumper) find(s *input.Source, kind strace.Kind) (offset int64, before, text []byte) {
	line, base := s.Line()
	pos := d.positions[s]
	if pos == nil || pos.line != base {
		pos = &position{line: base}
		d.positions[s] = pos
	}
	rest := line[pos.at:]
	i := bytes.Index(rest, []byte(tag(kind)))
	if kind == strace.KindBad {
		// A broken anchor or drop report is bad too.
		for _, k := range [...]strace.Kind{strace.KindAnchor, strace.KindDrops} {
			if at := bytes.Index(rest, []byte(tag(k))); at >= 0 && (i < 0 || at < i) {
				i = at
			}
		}
	}
	i = max(i, 0)
	before, text = rest[:i], rest[i:]
	offset = base + int64(pos.at+i)
	pos.at += i + 1
	return offset, before, text
}

func (d *dumper) item(s *input.Source, kind strace.Kind, group int) error {
	offset, before, text := d.find(s, kind)
	h := head{File: s.Path, Offset: offset}
	sc := s.Scanner
	switch kind {
	case strace.KindRecord:
		h.Kind = "record"
		return d.enc.Encode(d.record(h, &sc.Record, sc.Outcome, before, group))
	case strace.KindAnchor:
		h.Kind = "anchor"
		return d.enc.Encode(anchor{h, sc.Anchor.PID, sc.Anchor.Mono, sc.Anchor.Wall})
	case strace.KindDrops:
		h.Kind = "drops"
		v := sc.Drops
		return d.enc.Encode(drops{h, v.PID, v.New, v.Total, v.QueueFull, v.ClaimExhausted, v.OutputFailed, v.NotAdmitted})
	case strace.KindReady:
		h.Kind = "ready"
		return d.enc.Encode(ready{h, sc.Ready.PID, sc.Ready.Dev})
	case input.KindBindPhase:
		h.Kind = "bind_phase"
		p := &s.Phase
		return d.enc.Encode(bindPhase{h, string(p.Name), p.Start, p.Dur, attrs(p.Attrs, false)})
	default:
		h.Kind = "bad"
		return d.enc.Encode(bad{h, sc.Outcome.String(), strings.ToValidUTF8(string(text[:min(len(text), maxText)]), "\uFFFD")})
	}
}

func (d *dumper) record(h head, r *strace.Record, outcome strace.Outcome, before []byte, group int) record {
	if d.duplicate(r, group) {
		outcome = strace.OutcomeDuplicate
	}
	clock := "host"
	if r.Device {
		clock = "device"
	}
	return record{
		head: h, Outcome: outcome.String(), Generation: generation(r, before),
		V: 1, PID: r.PID, TID: r.TID, Inv: r.Inv, HID: unit.HID(r.HID, r.HIDDigits), Depth: r.Depth, Name: r.Name.Text,
		TS: r.TS, Dur: r.Dur, Attrs: attrs(r.Attrs, r.Verbatim), RawAttrs: strings.ToValidUTF8(string(r.Attrs), "\uFFFD"),
		Clock: clock, Stage: r.Name.Stage, Family: r.Name.Family, Level: r.Name.Level, Producer: r.Name.Producer,
		Truncated: r.Name.Truncated || (!r.Verbatim && bytes.HasSuffix(r.Attrs, []byte("~"))), Mono: r.Mono, Wall: string(r.Wall),
	}
}

// duplicate asks the assembler whether it holds r already.
func (d *dumper) duplicate(r *strace.Record, group int) bool {
	d.now = max(d.now, input.RecordTime(r))
	before := d.asm.Stats().Records[strace.OutcomeDuplicate]
	d.asm.Add(d.asm.Scope(d.groups[group].Scope, d.now), r, d.now)
	return d.asm.Stats().Records[strace.OutcomeDuplicate] > before
}

func attrs(text []byte, verbatim bool) map[string]any {
	m := map[string]any{}
	for it := strace.NewAttrIter(text); ; {
		k, v, ok := it.Next()
		if !ok {
			return m
		}
		if n, isInt := strace.ParseInt(v); isInt {
			m[string(k)] = n
			continue
		}
		if !verbatim {
			v = strace.AppendDecoded(nil, v)
		}
		m[string(k)] = string(v)
	}
}
