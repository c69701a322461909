// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package report // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/report"

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/unit"
	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

const (
	// maxRounds bounds the rounds kept to be listed: 80 MB. The averages are
	// over all.
	maxRounds = 1 << 20
	// trim is how many rounds the trimmed mean leaves out at each end.
	trim = 10
)

// The columns of the rounds table, in order of print.
const (
	colHost = iota
	colDevice
	colEffective
	colOrch
	colSched
	numColumns
)

var columns = [numColumns]string{"Host", "Device", "Effective", "Orch", "Sched"}

// round is one invocation; times in nanoseconds, 0 where the stage is absent.
type round struct {
	epoch int32 // uses of the process's numbers before this one
	pid   int32
	inv   uint64
	ts    int64
	value [numColumns]int64
}

// Rounds lists every invocation of the busiest callable.
type Rounds struct {
	byKey  map[callableKey]*roundList
	order  []*roundList
	epochs epochs
	kept   int
	// Unlisted counts rounds beyond the bound.
	Unlisted uint64
}

type roundList struct {
	key    callableKey
	hid    string
	n      int64
	rounds []round
	stats  [numColumns]trimmed
}

// NewRounds returns an empty collector.
func NewRounds() *Rounds { return &Rounds{byKey: map[callableKey]*roundList{}} }

// Trace implements feed.Consumer.
func (r *Rounds) Trace(t *strace.Trace) error {
	unit.Each(t, r.add)
	return nil
}

func (r *Rounds) add(u *unit.Unit) {
	if u.Kind != unit.Invocation || u.Root == nil || u.Root.Name.Stage != semconv.StageRun {
		return
	}
	key := callableKey{hid: u.Root.HID}
	if key.hid == 0 {
		key.node = u.NodeHID
	}
	l, ok := r.byKey[key]
	if !ok {
		if len(r.order) == maxCallables {
			r.Unlisted++
			return
		}
		l = &roundList{key: key, hid: unit.HID(u.Root.HID, u.Root.HIDDigits)}
		r.byKey[key] = l
		r.order = append(r.order, l)
	}
	l.n++
	p := u.Process()
	rd := round{epoch: r.epochs.of(p, u.Root.Inv), pid: p.PID, inv: u.Root.Inv, ts: u.Root.TS, value: values(u)}
	for c, v := range rd.value {
		if v > 0 || c == colHost {
			l.stats[c].add(v)
		}
	}
	if r.kept == maxRounds {
		r.Unlisted++
		return
	}
	r.kept++
	l.rounds = append(l.rounds, rd)
}

func values(u *unit.Unit) (v [numColumns]int64) {
	var orch, sched *strace.Span
	for i := range u.Spans {
		s := &u.Spans[i]
		switch s.Name.Stage {
		case semconv.StageRun:
			v[colHost] = s.End - s.Start
		case semconv.StageDeviceWall:
			v[colDevice] = s.End - s.Start
		case stageOrch:
			orch, v[colOrch] = s, s.End-s.Start
		case stageSched:
			sched, v[colSched] = s, s.End-s.Start
		}
	}
	switch {
	case orch != nil && sched != nil:
		v[colEffective] = max(orch.End, sched.End) - min(orch.Start, sched.Start)
	default:
		v[colEffective] = v[colOrch] + v[colSched]
	}
	return v
}

// trimmed keeps what mean and trimmed mean need: the sum of all, and the
// lowest and highest few.
type trimmed struct {
	n         int64
	sum       float64 // exact to 2^53 ns, which is 104 days of rounds
	low, high []int64 // sorted; high descending
}

func (t *trimmed) add(v int64) {
	t.n++
	t.sum += float64(v)
	t.low = keep(t.low, v, cmp.Compare[int64])
	t.high = keep(t.high, v, func(a, b int64) int { return cmp.Compare(b, a) })
}

// keep inserts v into a sorted list of at most trim values.
func keep(list []int64, v int64, order func(a, b int64) int) []int64 {
	if len(list) == trim && order(v, list[trim-1]) >= 0 {
		return list
	}
	at, _ := slices.BinarySearchFunc(list, v, order)
	if len(list) == trim {
		list = list[:trim-1]
	}
	return slices.Insert(list, at, v)
}

func (t *trimmed) mean() float64 {
	if t.n == 0 {
		return 0
	}
	return t.sum / float64(t.n)
}

// trimmedMean leaves out the trim lowest and highest; ok is false where no
// values would be left.
func (t *trimmed) trimmedMean() (mean float64, ok bool) {
	if t.n <= 2*trim {
		return 0, false
	}
	sum := t.sum
	for i := range trim {
		sum -= float64(t.low[i]) + float64(t.high[i])
	}
	return sum / float64(t.n-2*trim), true
}

// busiest is the callable with the most rounds, nil without any.
func (r *Rounds) busiest() *roundList {
	var most *roundList
	for _, l := range r.order {
		if most == nil || l.n > most.n {
			most = l
		}
	}
	return most
}

// listed returns the rounds to list: in order of invocation, or the slowest.
func (l *roundList) listed(opt Options) []round {
	slices.SortStableFunc(l.rounds, func(a, b round) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.inv, b.inv), cmp.Compare(a.pid, b.pid), cmp.Compare(a.ts, b.ts))
	})
	if opt.Top == 0 || opt.Top >= len(l.rounds) {
		return l.rounds
	}
	slowest := slices.Clone(l.rounds)
	slices.SortStableFunc(slowest, func(a, b round) int { return cmp.Compare(b.value[colHost], a.value[colHost]) })
	return slowest[:opt.Top]
}

// Write writes the table.
func (r *Rounds) Write(w io.Writer, opt Options) error {
	l := r.busiest()
	switch opt.Format {
	case JSON:
		return writeJSON(w, r.result(l, opt))
	case CSV:
		return r.csv(w, l, opt)
	}
	p := newPrinter(w, opt)
	if l == nil {
		p.printf("%s\n", noMarkers)
		return p.flush()
	}
	l.table(p, opt)
	return p.flush()
}

// shown are the columns that some round has; Host is always.
func (l *roundList) shown() []int {
	shown := []int{colHost}
	for c := colDevice; c < numColumns; c++ {
		if l.stats[c].n > 0 {
			shown = append(shown, c)
		}
	}
	return shown
}

func (l *roundList) table(p *printer, opt Options) {
	shown := l.shown()
	header := fmt.Sprintf("  %-6s", "Round")
	var names strings.Builder
	for _, c := range shown {
		fmt.Fprintf(&names, "  %12s", columns[c]+" (us)")
	}
	header += names.String()
	p.printf("%s\n  %s\n", p.style(bold, header), strings.Repeat("-", len(header)-2))
	number := map[roundID]int{}
	rounds := l.listed(opt)
	if len(rounds) < len(l.rounds) {
		for i := range l.rounds {
			number[l.rounds[i].id()] = i
		}
	}
	for i := range rounds {
		n := i
		if len(number) > 0 {
			n = number[rounds[i].id()]
		}
		p.printf("  %-6d", n)
		for _, c := range shown {
			p.printf("  %12s", us(float64(rounds[i].value[c])))
		}
		p.printf("\n")
	}
	p.printf("  Avg Host: %s us", us(l.stats[colHost].mean()))
	for _, c := range shown[1:] {
		p.printf("  |  Avg %s: %s us", columns[c], us(l.stats[c].mean()))
		if c == colDevice {
			p.printf(" [%d/%d]", l.stats[c].n, l.n)
		}
	}
	p.printf("  (%d rounds)\n", l.n)
	host, ok := l.stats[colHost].trimmedMean()
	if !ok {
		return
	}
	p.printf("  Trimmed Avg Host: %s us", us(host))
	if device, ok := l.stats[colDevice].trimmedMean(); ok {
		p.printf("  |  Trimmed Avg Device: %s us", us(device))
	}
	p.printf("  (dropped %d low + %d high, %d rounds used)\n", trim, trim, l.n-2*trim)
}

// roundID tells rounds apart.
type roundID struct {
	epoch, pid int32
	inv        uint64
	ts         int64
}

func (r *round) id() roundID { return roundID{r.epoch, r.pid, r.inv, r.ts} }

func (r *Rounds) result(l *roundList, opt Options) map[string]any {
	out := map[string]any{"mode": "rounds", "warnings": nonNil(opt.Warnings), "rounds": []any{}}
	if l == nil {
		return out
	}
	rows := make([]map[string]any, 0, len(l.rounds))
	for _, rd := range l.listed(opt) {
		row := map[string]any{"pid": rd.pid, "inv": rd.inv, "ts": rd.ts, "epoch": rd.epoch}
		for _, c := range l.shown() {
			row[strings.ToLower(columns[c])+"_ns"] = rd.value[c]
		}
		rows = append(rows, row)
	}
	out["hid"], out["n"], out["rounds"] = l.hid, l.n, rows
	mean, trimmedMean := map[string]float64{}, map[string]float64{}
	for _, c := range l.shown() {
		name := strings.ToLower(columns[c]) + "_ns"
		mean[name] = l.stats[c].mean()
		if v, ok := l.stats[c].trimmedMean(); ok {
			trimmedMean[name] = v
		}
	}
	out["mean"], out["trimmed_mean"] = mean, trimmedMean
	return out
}

func (*Rounds) csv(w io.Writer, l *roundList, opt Options) error {
	header := []string{"hid", "pid", "epoch", "inv", "ts_ns", "host_ns", "device_ns", "effective_ns", "orch_ns", "sched_ns"}
	var rows [][]string
	if l != nil {
		for _, rd := range l.listed(opt) {
			row := []string{l.hid, strconv.Itoa(int(rd.pid)), strconv.Itoa(int(rd.epoch)), strconv.FormatUint(rd.inv, 10), itoa(rd.ts)}
			for _, v := range rd.value {
				row = append(row, itoa(v))
			}
			rows = append(rows, row)
		}
	}
	return writeCSV(w, header, rows)
}

// Warnings tell what the table cannot.
func (r *Rounds) Warnings() []string {
	if r.Unlisted == 0 {
		return nil
	}
	return []string{itoa(int64(r.Unlisted)) + " rounds are not listed to bound memory; those of the busiest callable are in its averages"}
}
