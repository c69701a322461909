// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package oracle // import "github.com/phasecol/phasecol/pkg/strace/internal/oracle"

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// record is one marker as written, with the name decoded.
type record struct {
	pid, tid int64
	inv      uint64
	hid      string
	depth    int64
	name     string
	ts, dur  int64
	attrs    string
	device   bool
	mono     int64
	verbatim bool
}

func (r *record) end() int64  { return r.ts + r.dur }
func (r *record) point() bool { return r.dur == 0 }

// host reports whether ts counts on the host's clock.
func (r *record) host() bool { return !r.device }

// item is one thing found on a line.
type item struct {
	record  *record
	anchor  *anchor
	ready   *ready
	drops   *drops
	outcome string // for a marker; span and point come with a record
}

type (
	anchor struct{ pid, mono, wall int64 }
	ready  struct{ pid, dev int64 }
	drops  struct{ pid, mono int64 }
)

const maxTime = int64(1) << 60

var (
	anyTag = regexp.MustCompile(`\[STRACE\] v=|\[CLOCK_ANCHOR\] v=|\[HOSTLOG_DROPS\] v=|\[chip_process pid=\d+ dev=\d+\] ready|\[mono_ns=\d+\]|\[2\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\]`)

	markerLine = grammar(`[STRACE] v=`, `D`, ` pid=`, `D`, ` tid=`, `D`, ` inv=`, `D`, ` hid=`, `H`, ` depth=`, `D`, ` name=`, `N`, ` ts=`, `D`, ` dur=`, `D`)
	anchorLine = grammar(`[CLOCK_ANCHOR] v=`, `D`, ` pid=`, `D`, ` mono_ns=`, `D`, ` wall_ns=`, `D`)
	dropsLine  = grammar(`[HOSTLOG_DROPS] v=`, `D`, ` pid=`, `D`, ` new=`, `D`, ` total=`, `D`, ` queue_full=`, `D`,
		` claim_exhausted=`, `D`, ` output_failed=`, `D`, ` not_admitted=`, `D`)
	readyLine = regexp.MustCompile(`^\[chip_process pid=(\d+) dev=(\d+)\] ready`)
	monoTag   = regexp.MustCompile(`^\[mono_ns=(\d+)\]`)

	sourceTag    = regexp.MustCompile(`\[strace\.h:[^\]]*\] $`)
	verbatimStop = regexp.MustCompile(`\[mono_ns=|\[strace\.h:|\[STRACE\] |\[T0x|\[TIMING\]|\[INFO|\[CLOCK_ANCHOR\] v=|\[HOSTLOG_DROPS\] v=|\[chip_process pid=|\[2...-`)
	versionOnly  = regexp.MustCompile(`^\[\w+\] v=(\d+)`)
)

// line is the grammar of one kind of line, whole and cut anywhere.
type line struct {
	whole, cut *regexp.Regexp
}

// grammar builds both expressions from literals and fields: D a decimal, H a
// hexadecimal number, N a name.
func grammar(parts ...string) line {
	class := map[string]string{"D": `\d+`, "H": `[0-9a-fA-F]+`, "N": `[^ \[]*`}
	whole, cut := "", ""
	for i := len(parts) - 1; i >= 0; i-- {
		if c, field := class[parts[i]]; field {
			whole = "(" + c + ")" + whole
			cut = "(?:(" + c + ")" + cut + ")?"
			continue
		}
		whole = regexp.QuoteMeta(parts[i]) + whole
		for j := len(parts[i]) - 1; j >= 0; j-- {
			cut = "(?:" + regexp.QuoteMeta(parts[i][j:j+1]) + cut + ")?"
		}
	}
	return line{whole: regexp.MustCompile("^" + whole + "(?: |$)"), cut: regexp.MustCompile("^" + cut + "$")}
}

// read matches text. A broken line is torn when another tag or its end cuts
// it, else malformed. Fields may be fewer than the grammar has when it is torn.
func (l line) read(text string, terminated bool) (fields []string, outcome string) {
	if m := l.whole.FindStringSubmatch(text); m != nil {
		if len(m[0]) == len(text) && !strings.HasSuffix(m[0], " ") && !terminated {
			return m[1:], "torn"
		}
		return m[1:], ""
	}
	stop := strings.IndexByte(text[1:], '[')
	if stop >= 0 {
		text = text[:stop+1]
	}
	if m := l.cut.FindStringSubmatch(text); m != nil {
		return m[1:], "torn"
	}
	// What was read before the offence may already be out of range.
	return nil, "malformed"
}

// scan finds everything on one line.
func scan(text string, terminated bool) []item {
	text = strings.TrimSuffix(text, "\r")
	var items []item
	mono, prefixes := int64(0), 0
	for _, at := range anyTag.FindAllStringIndex(text, -1) {
		rest := text[at[0]:]
		switch {
		case strings.HasPrefix(rest, "[mono_ns="):
			if v, ok := number(monoTag.FindStringSubmatch(rest)[1], math.MaxInt64); ok {
				mono = int64(v)
				prefixes++
			}
		case strings.HasPrefix(rest, "[2"):
			mono = 0
			prefixes++
		case strings.HasPrefix(rest, "[chip_process"):
			m := readyLine.FindStringSubmatch(rest)
			pid, ok1 := number(m[1], math.MaxInt32)
			dev, ok2 := number(m[2], math.MaxInt32)
			if ok1 && ok2 {
				items = append(items, item{ready: &ready{int64(pid), int64(dev)}})
			}
		default:
			if prefixes != 1 {
				mono = 0
			}
			if strings.HasPrefix(rest, "[STRACE]") {
				items = append(items, marker(text, at[0], terminated, mono))
			} else {
				items = append(items, other(rest, terminated, mono))
			}
			mono, prefixes = 0, 0
		}
	}
	return items
}

func marker(text string, at int, terminated bool, mono int64) item {
	rest := text[at:]
	if v := versionOnly.FindStringSubmatch(rest); v != nil {
		n, ok := number(v[1], math.MaxInt64)
		switch {
		case !ok:
			return item{outcome: "malformed"}
		case n != 1:
			return item{outcome: "unknown_version"}
		}
	}
	f, outcome := markerLine.read(rest, terminated)
	limits := []uint64{math.MaxInt64, math.MaxInt32, math.MaxInt64, math.MaxUint64, 0, math.MaxInt32, 0, uint64(maxTime), uint64(maxTime)}
	values := make([]uint64, len(limits))
	for i, limit := range limits {
		switch {
		case i >= len(f) || f[i] == "":
		case i == 4 && len(f[i]) > 16:
			return item{outcome: "malformed"}
		case i == 4 || i == 6:
		default:
			v, ok := number(f[i], limit)
			if !ok {
				return item{outcome: "malformed"}
			}
			values[i] = v
		}
	}
	if outcome != "" {
		return item{outcome: outcome}
	}
	if values[7]+values[8] > uint64(maxTime) {
		return item{outcome: "malformed"}
	}
	r := &record{
		pid: int64(values[1]), tid: int64(values[2]), inv: values[3], hid: f[4], depth: int64(values[5]),
		ts: int64(values[7]), dur: int64(values[8]), mono: mono,
		verbatim: sourceTag.MatchString(text[:at]),
	}
	r.name = decoded(f[6], r.verbatim)
	attrs := rest[len(strings.TrimSuffix(markerLine.whole.FindString(rest), " ")):]
	if r.verbatim {
		if stop := verbatimStop.FindStringIndex(attrs); stop != nil {
			attrs = attrs[:stop[0]]
		}
	} else if stop := strings.IndexByte(attrs, '['); stop >= 0 {
		attrs = attrs[:stop]
	}
	r.attrs = strings.Trim(attrs, " ")
	// The names say it too, where a torn line hides the token.
	s := chipStage(r.name) + "."
	r.device = strings.HasPrefix(s, "run.runner_run.device_wall.")
	for token := range strings.SplitSeq(r.attrs, " ") {
		if token == "clk=dev" {
			r.device = s != "run.runner_run.device_boundaries."
		}
	}
	it := item{record: r, outcome: "span"}
	if r.point() {
		it.outcome = "point"
	}
	return it
}

// other reads an anchor or a report of losses.
func other(rest string, terminated bool, mono int64) item {
	grammar := anchorLine
	isAnchor := strings.HasPrefix(rest, "[CLOCK_ANCHOR]")
	if !isAnchor {
		grammar = dropsLine
	}
	f, outcome := grammar.read(rest, terminated)
	values := make([]uint64, 8)
	for i := range f {
		limit := uint64(math.MaxUint64)
		switch {
		case i == 0:
			limit = math.MaxInt64
		case i == 1:
			limit = math.MaxInt32
		case isAnchor && i == 2:
			limit = uint64(maxTime)
		case isAnchor && i == 3:
			limit = 1 << 62
		}
		if f[i] == "" {
			continue
		}
		v, ok := number(f[i], limit)
		if !ok {
			return item{outcome: "malformed"}
		}
		values[i] = v
	}
	switch {
	case outcome != "":
		return item{outcome: outcome}
	case values[0] != 1:
		return item{outcome: "unknown_version"}
	case isAnchor:
		return item{anchor: &anchor{int64(values[1]), int64(values[2]), int64(values[3])}}
	default:
		return item{drops: &drops{int64(values[1]), mono}}
	}
}

func number(digits string, limit uint64) (uint64, bool) {
	v, err := strconv.ParseUint(digits, 10, 64)
	return v, err == nil && v <= limit
}

var escape = regexp.MustCompile(`%[0-9A-F]{2}`)

// decoded undoes percent-encoding, which verbatim generations do not have, and
// makes the result UTF-8.
func decoded(s string, verbatim bool) string {
	if !verbatim {
		s = escape.ReplaceAllStringFunc(s, func(e string) string {
			v, _ := strconv.ParseUint(e[1:], 16, 8)
			return string([]byte{byte(v)})
		})
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

var token = regexp.MustCompile(` *[^ ]+`)

// attributes splits attribute text: a token without '=' belongs to the value
// before it.
func attributes(text string) map[string]string {
	m := map[string]string{}
	key := ""
	for _, t := range token.FindAllString(text, -1) {
		k, v, found := strings.Cut(strings.TrimLeft(t, " "), "=")
		switch {
		case found && k == "":
			key = ""
		case found:
			key = k
			m[k] = v
		case key != "":
			m[key] += t
		}
	}
	return m
}

// Outcomes counts the markers, anchors and reports of one line by outcome, as
// written: with its line feed where it has one.
func Outcomes(text string) map[string]int {
	counts := map[string]int{}
	bare := strings.TrimSuffix(text, "\n")
	for _, it := range scan(bare, bare != text) {
		if it.outcome != "" {
			counts[it.outcome]++
		}
	}
	return counts
}
