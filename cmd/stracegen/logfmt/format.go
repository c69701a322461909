// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package logfmt

import (
	"fmt"
	"strconv"
	"time"
)

// maxRecord is the atomic write of a pipe; generation 9 never writes more at once.
const maxRecord = 512

// Options of a Formatter.
type Options struct {
	// Bare leaves the prefix away, as the runtime does in files that hold
	// nothing but records.
	Bare bool
	// Location is the time zone of the wall prefix of generations 1 to 5; nil is UTC.
	Location *time.Location
}

// Formatter spells records of one generation. It is not safe for concurrent use.
type Formatter struct {
	gen  int
	bare bool
	loc  *time.Location

	// The text of a wall prefix up to its second changes rarely.
	second     int64
	secondText []byte
}

// New returns a Formatter of a generation between MinGeneration and MaxGeneration.
func New(generation int, opts Options) (*Formatter, error) {
	if generation < MinGeneration || generation > MaxGeneration {
		return nil, fmt.Errorf("generation %d: must be between %d and %d", generation, MinGeneration, MaxGeneration)
	}
	loc := opts.Location
	if loc == nil {
		loc = time.UTC
	}
	return &Formatter{gen: generation, bare: opts.Bare, loc: loc, second: -1}, nil
}

// Generation is the one given to New.
func (f *Formatter) Generation() int { return f.gen }

// Append appends one whole line with its newline to dst and returns it.
func (f *Formatter) Append(dst []byte, r *Record) []byte {
	start := len(dst)
	dst, _, _ = f.AppendParts(dst, r)
	if f.gen >= 9 && len(dst)-start > maxRecord && r.Kind != KindRaw && r.Kind != KindLog {
		dst = append(dst[:start+maxRecord-2], '~', '\n')
	}
	return dst
}

// AppendParts appends one line and tells where its parts end: dst[:prefix] ends
// with the prefix and dst[:body] with the body; the newline follows. Writers of
// generations 1 to 3 write these three apart, which is how their lines tear.
func (f *Formatter) AppendParts(dst []byte, r *Record) (out []byte, prefix, body int) {
	switch r.Kind {
	case KindSpan:
		dst = f.appendPrefix(dst, r, f.level(), f.fn(r))
		prefix = len(dst)
		dst = f.appendSpan(dst, r)
	case KindAnchor:
		dst = f.appendPrefix(dst, r, f.level(), "clock_anchor")
		prefix = len(dst)
		dst = append(dst, "[CLOCK_ANCHOR] v=1 pid="...)
		dst = strconv.AppendInt(dst, int64(r.PID), 10)
		dst = append(dst, " mono_ns="...)
		dst = strconv.AppendInt(dst, r.TS, 10)
		dst = append(dst, " wall_ns="...)
		dst = strconv.AppendInt(dst, r.AnchorWall, 10)
	case KindDrops:
		dst = f.appendPrefix(dst, r, "ERROR", "host_log_drops")
		prefix = len(dst)
		dst = appendDrops(dst, r)
	case KindReady:
		prefix = len(dst)
		dst = append(dst, "[chip_process pid="...)
		dst = strconv.AppendInt(dst, int64(r.PID), 10)
		dst = append(dst, " dev="...)
		dst = strconv.AppendInt(dst, int64(r.Device), 10)
		dst = append(dst, "] ready"...)
	case KindLog:
		dst = f.appendPrefix(dst, r, r.Level, r.Func)
		prefix = len(dst)
		dst = append(dst, r.Text...)
	default:
		prefix = len(dst)
		dst = append(dst, r.Text...)
	}
	body = len(dst)
	return append(dst, '\n'), prefix, body
}

func (f *Formatter) level() string {
	if f.gen <= 2 {
		return "INFO_V9"
	}
	return "TIMING"
}

func (f *Formatter) fn(r *Record) string {
	switch {
	case f.gen >= 6 || r.Site == SiteHostSpan:
		return "emit_host_span"
	case r.Site == SiteSpanAt:
		return "emit_span_at"
	default:
		return "~StraceScope"
	}
}

// sourceLine is the number in "[strace.h:N]" of generations 1 to 5.
func (f *Formatter) sourceLine(site Site) string {
	scope, spanAt := "129", "182"
	switch {
	case f.gen >= 4:
		scope, spanAt = "134", "223"
	case f.gen == 3:
		scope, spanAt = "131", "184"
	}
	if site == SiteSpanAt {
		return spanAt
	}
	return scope
}

func (f *Formatter) appendPrefix(dst []byte, r *Record, level, fn string) []byte {
	if f.bare {
		return dst
	}
	if f.gen >= 6 {
		dst = append(dst, "[mono_ns="...)
		dst = strconv.AppendInt(dst, r.Mono, 10)
	} else {
		dst = append(dst, '[')
		dst = f.appendWall(dst, r.Wall)
	}
	dst = append(dst, "][T0x"...)
	dst = strconv.AppendUint(dst, r.Thread, 16)
	dst = append(dst, "]["...)
	dst = append(dst, level...)
	dst = append(dst, "] "...)
	dst = append(dst, fn...)
	return append(dst, ": "...)
}

// appendWall appends local time with microseconds, no zone.
func (f *Formatter) appendWall(dst []byte, wall int64) []byte {
	sec, ns := wall/1e9, wall%1e9
	if sec != f.second {
		f.second = sec
		f.secondText = time.Unix(sec, 0).In(f.loc).AppendFormat(f.secondText[:0], "2006-01-02 15:04:05.")
	}
	dst = append(dst, f.secondText...)
	us := ns / 1000
	for div := int64(100000); div > 0; div /= 10 {
		dst = append(dst, byte('0'+us/div%10))
	}
	return dst
}

func (f *Formatter) appendSpan(dst []byte, r *Record) []byte {
	if f.gen <= 5 && r.Site != SiteHostSpan && !f.bare {
		dst = append(dst, "[strace.h:"...)
		dst = append(dst, f.sourceLine(r.Site)...)
		dst = append(dst, "] "...)
	}
	// Encoding, caps and the wide counter came with the node family and reached
	// every span in generation 6.
	modern := f.gen >= 6 || (f.gen == 5 && r.Site == SiteHostSpan)
	inv := r.Inv
	if !modern {
		inv = uint64(uint32(inv))
	}
	dst = append(dst, "[STRACE] v=1 pid="...)
	dst = strconv.AppendInt(dst, int64(r.PID), 10)
	dst = append(dst, " tid="...)
	dst = strconv.AppendInt(dst, r.TID, 10)
	dst = append(dst, " inv="...)
	dst = strconv.AppendUint(dst, inv, 10)
	dst = append(dst, " hid="...)
	dst = strconv.AppendUint(dst, r.HID, 16)
	dst = append(dst, " depth="...)
	dst = strconv.AppendInt(dst, int64(r.Depth), 10)
	dst = append(dst, " name="...)
	if modern {
		dst = appendName(dst, r.Name)
	} else {
		dst = append(dst, r.Name...)
	}
	dst = append(dst, " ts="...)
	dst = strconv.AppendInt(dst, r.TS, 10)
	dst = append(dst, " dur="...)
	dst = strconv.AppendInt(dst, r.Dur, 10)
	// The separator is there even when no attribute follows.
	dst = append(dst, ' ')
	from := len(dst)
	dst = appendAttrs(dst, r.Attrs)
	if modern {
		dst = capText(dst, from)
	}
	return dst
}

func appendAttrs(dst []byte, attrs []Attr) []byte {
	for i := range attrs {
		if i > 0 {
			dst = append(dst, ' ')
		}
		a := &attrs[i]
		dst = append(dst, a.Key...)
		dst = append(dst, '=')
		if a.IsStr {
			dst = append(dst, a.Str...)
		} else {
			dst = strconv.AppendInt(dst, a.Num, 10)
		}
	}
	return dst
}

func appendDrops(dst []byte, r *Record) []byte {
	dst = append(dst, "[HOSTLOG_DROPS] v=1 pid="...)
	dst = strconv.AppendInt(dst, int64(r.PID), 10)
	dst = append(dst, " new="...)
	dst = strconv.AppendUint(dst, r.DropsNew, 10)
	dst = append(dst, " total="...)
	dst = strconv.AppendUint(dst, r.DropsTotal, 10)
	dst = append(dst, " queue_full="...)
	dst = strconv.AppendUint(dst, r.DropsTotal, 10)
	return append(dst, " claim_exhausted=0 output_failed=0 not_admitted=0"...)
}
