// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/pkg/strace/internal/oracle"
)

// samplesDir holds logs of the real runtime and logger. It lies beside the
// repository and may be absent.
const samplesDir = "../../../shared/samples"

// player reads logs into an assembler and collects spans in the oracle's form.
type player struct {
	t        testing.TB
	asm      *Assembler
	scan     *Scanner
	now      int64
	spans    map[string]oracle.Span
	traces   []TraceKind
	repeated int
	// file is noted for every process that appears, when set.
	file  FileClock
	noted map[string]bool
	cfg   Config
	// before are the counts of assemblers that were restarted, crashed is set
	// when lines were read twice.
	before  Stats
	crashed bool
}

const testHost = "node-a"

func newPlayer(tb testing.TB, adjust ...func(*Config)) *player {
	tb.Helper()
	p := &player{t: tb, now: 1, spans: map[string]oracle.Span{}, noted: map[string]bool{}}
	cfg := DefaultConfig()
	cfg.Host, cfg.OnNone = testHost, NoneMonotonic
	cfg.Emit = p.take
	for _, f := range adjust {
		f(&cfg)
	}
	p.cfg = cfg
	p.start()
	return p
}

func (p *player) start() {
	p.t.Helper()
	names := NewNames()
	asm, err := NewAssembler(p.cfg, names)
	require.NoError(p.t, err)
	p.asm, p.scan = asm, NewScanner(names)
}

// restart goes on from a snapshot in a new assembler. counted tells whether
// what the old one did since is kept: not after a crash, when the lines since
// are read again.
func (p *player) restart(snapshot []byte, counted Stats) {
	p.t.Helper()
	for o := range counted.Records {
		p.before.Records[o] += counted.Records[o]
	}
	p.before.Invocations += counted.Invocations
	p.before.Runs += counted.Runs
	p.before.Spans += counted.Spans
	p.before.Events += counted.Events
	p.start()
	require.NoError(p.t, p.asm.Restore(snapshot, p.now))
}

// stats are the counts over all restarts.
func (p *player) stats() Stats {
	s := p.asm.Stats()
	for o := range s.Records {
		s.Records[o] += p.before.Records[o]
	}
	s.Invocations += p.before.Invocations
	s.Runs += p.before.Runs
	s.Spans += p.before.Spans
	s.Events += p.before.Events
	return s
}

func (p *player) take(tr *Trace) {
	p.traces = append(p.traces, tr.Kind)
	for i := range tr.Spans {
		s := &tr.Spans[i]
		proc := tr.Processes[s.Process]
		o := oracle.Span{
			Trace: hex.EncodeToString(tr.ID[:]), ID: hex.EncodeToString(s.ID[:]), Scope: proc.Scope.Key, PID: int64(proc.PID), TID: s.TID,
			Inv: s.Inv, Depth: int64(s.Depth), Name: s.Text, Stage: s.Name.Stage, TS: s.TS, Start: s.Start, End: s.End,
			Attrs: string(s.Attrs), Device: s.Device, Source: s.Source.String(), Error: s.ErrorNS, Slack: s.SlackNS, Fits: s.Fits,
			Synthetic: s.Synthetic, Guessed: s.Guessed, Incomplete: s.Incomplete,
		}
		if !s.Synthetic {
			o.HID = fmt.Sprintf("%0*x", s.HIDDigits, s.HID)
		}
		if !s.Parent.IsZero() {
			o.Parent = hex.EncodeToString(s.Parent[:])
		}
		if s.IsRoot {
			o.Stitch = s.Stitch.String()
		}
		for _, e := range tr.Events[s.FirstEvent : s.FirstEvent+s.NumEvents] {
			o.Events = append(o.Events, oracle.Event{Name: e.Name.Text, Time: e.Time, Attrs: string(e.Attrs)})
		}
		key := o.Trace + o.ID
		if old, twice := p.spans[key]; twice {
			p.repeated++
			require.Equal(p.t, old, o, "two spans with one id differ")
		}
		p.spans[key] = o
	}
}

// line reads one line without its line feed.
func (p *player) line(scope string, text []byte, terminated bool) {
	p.scan.Reset(text, terminated)
	s := p.asm.Scope(scope, p.now)
	for {
		switch p.scan.Next() {
		case KindNone:
			return
		case KindRecord:
			p.note(s, p.scan.Record.PID)
			p.asm.Add(s, &p.scan.Record, p.now)
		case KindAnchor:
			p.asm.NoteAnchor(s, p.scan.Anchor, p.now)
		case KindReady:
			p.asm.NoteReady(s, p.scan.Ready, p.now)
		case KindDrops:
			p.asm.NoteDrops(s, p.scan.Drops, p.now)
		case KindBad:
			p.asm.NoteBad(p.scan.Outcome)
		}
	}
}

func (p *player) note(s *Scope, pid int32) {
	if key := fmt.Sprint(s.Key, pid); p.file != (FileClock{}) && !p.noted[key] {
		p.noted[key] = true
		p.asm.NoteFile(s, pid, p.file, p.now)
	}
}

// text reads a whole log of scope.
func (p *player) text(scope, log string) {
	lines := strings.Split(log, "\n")
	for i, l := range lines {
		p.line(scope, []byte(l), i < len(lines)-1)
	}
}

func (p *player) flush() { p.asm.Flush(p.now) }

// byName returns the spans with that name, by start.
func (p *player) byName(name string) []oracle.Span {
	var found []oracle.Span
	for _, s := range p.all() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

func (p *player) all() []oracle.Span {
	all := slices.Collect(maps.Values(p.spans))
	slices.SortFunc(all, func(a, b oracle.Span) int {
		if a.Start != b.Start {
			return int(min(max(a.Start-b.Start, -1), 1))
		}
		return strings.Compare(a.Trace+a.ID, b.Trace+b.ID)
	})
	return all
}

// parentName is the name of s's parent, empty for a topmost span.
func (p *player) parentName(s oracle.Span) string {
	return p.spans[s.Trace+s.Parent].Name
}

// only returns the one span with that name.
func (p *player) only(name string) oracle.Span {
	p.t.Helper()
	found := p.byName(name)
	require.Len(p.t, found, 1, "spans named %s", name)
	return found[0]
}

// sameAs compares with the oracle's result, span by span.
func (p *player) sameAs(want oracle.Result) {
	p.t.Helper()
	seen := map[string]bool{}
	repeated := 0
	for _, w := range want.Spans {
		key := w.Trace + w.ID
		if seen[key] {
			repeated++ // the same line twice, of records that stand alone
		}
		seen[key] = true
		got, ok := p.spans[key]
		if !ok {
			p.explain(w)
		}
		w.HID = strings.ToLower(w.HID)
		require.Equal(p.t, w, got)
	}
	for key, s := range p.spans {
		require.True(p.t, seen[key], "the oracle lacks %+v", s)
	}
	if !p.crashed {
		require.Equal(p.t, repeated, p.repeated, "repeated spans")
	}
	stats := p.stats()
	for o := range NumOutcomes {
		require.Equal(p.t, uint64(want.Outcomes[o.String()]), stats.Records[o], "records %s", o)
	}
	require.Equal(p.t, uint64(want.Invocations), stats.Invocations, "invocations")
	require.Equal(p.t, uint64(want.Runs), stats.Runs, "runs")
}

// explain fails with the spans that come nearest to a missing one.
func (p *player) explain(w oracle.Span) {
	p.t.Helper()
	for _, s := range p.spans {
		if s.Name == w.Name && s.TS == w.TS && s.PID == w.PID && s.TID == w.TID && s.Scope == w.Scope {
			require.Equal(p.t, w, s, "same record under another id")
		}
	}
	require.Fail(p.t, "span missing", "%+v", w)
}

// accounted checks that every record left as a span, an event, a duplicate or
// unplaced, and that nothing is held.
func (p *player) accounted() {
	p.t.Helper()
	s := p.stats()
	synthetic := uint64(0)
	for _, x := range p.spans {
		if x.Synthetic {
			synthetic++
		}
	}
	require.Equal(p.t, s.Records[OutcomeSpan]+s.Records[OutcomePoint], s.Spans-synthetic+s.Events, "records in, spans and events out")
	require.Zero(p.t, s.Open, "open")
	require.Zero(p.t, s.Waiting, "waiting")
	require.Zero(p.t, s.OpenRuns, "runs")
	require.Zero(p.t, s.HeldBytes, "held bytes")
}

// sampleFiles lists the sample logs, or skips.
func sampleFiles(tb testing.TB) []string {
	tb.Helper()
	if _, err := os.Stat(samplesDir); err != nil {
		tb.Skip("no samples beside the repository")
	}
	var all []string
	for _, pattern := range []string{"*.log", "*.log.gz"} {
		found, err := filepath.Glob(filepath.Join(samplesDir, pattern))
		require.NoError(tb, err)
		all = append(all, found...)
	}
	require.NotEmpty(tb, all)
	return all
}

func readSample(tb testing.TB, path string) string {
	tb.Helper()
	data, err := os.ReadFile(path)
	require.NoError(tb, err)
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(data))
		require.NoError(tb, err)
		data, err = io.ReadAll(z)
		require.NoError(tb, err)
	}
	return string(data)
}

// mark makes a generation-8 marker line.
func mark(pid, inv, depth int, name string, ts, dur int64, attrs string) string {
	return fmt.Sprintf("[mono_ns=%d][T0x7f00aa][TIMING] emit_host_span: [STRACE] v=1 pid=%d tid=%d inv=%d hid=ab12 depth=%d name=%s ts=%d dur=%d %s\n",
		ts+dur+5, pid, pid, inv, depth, name, ts, dur, attrs)
}

// anchorLine makes the anchor by which wall = mono + offset.
func anchorLine(pid int, mono, offset int64) string {
	return fmt.Sprintf("[mono_ns=%d][T0x7f00aa][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=%d mono_ns=%d wall_ns=%d\n", mono+7, pid, mono, mono+offset)
}

const ms = int64(time.Millisecond)
