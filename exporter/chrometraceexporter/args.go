// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"encoding/hex"
	"math"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

const (
	// maxKey of an attribute, bytes.
	maxKey = 128
	// tail is kept free in an event for the count of what was left out.
	tail = len(`,"args_left_out":4294967295}}`)
	// shownLinks of a span are listed in its args.
	shownLinks = 8
)

// args appends entries to the args of an event that must stay within a page.
// An entry that does not fit is left out; later, smaller ones may still fit.
type args struct {
	b     []byte
	room  int // where b must end
	limit int // of one value, bytes
	cut   int // values shortened
	left  int // entries left out
}

// fit keeps what was appended since before when it fits.
func (a *args) fit(before int, cut bool) {
	switch {
	case len(a.b) > a.room:
		a.b = a.b[:before]
		a.left++
	case cut:
		a.cut++
	}
}

// text appends one of the exporter's own entries.
func (a *args) text(key, value string) {
	before := len(a.b)
	a.b = append(a.b, ',', '"')
	a.b = append(a.b, key...)
	a.b = append(a.b, '"', ':')
	var cut bool
	a.b, cut = appendString(a.b, value, a.limit)
	a.fit(before, cut)
}

// links lists the first links, and how many there are.
func (a *args) links(links ptrace.SpanLinkSlice) {
	if links.Len() == 0 {
		return
	}
	before := len(a.b)
	a.b = append(a.b, `,"link_count":`...)
	a.b = strconv.AppendInt(a.b, int64(links.Len()), 10)
	a.b = append(a.b, `,"links":"`...)
	for i := range min(links.Len(), shownLinks) {
		if i > 0 {
			a.b = append(a.b, ' ')
		}
		trace, id := links.At(i).TraceID(), links.At(i).SpanID()
		a.b = hex.AppendEncode(a.b, trace[:])
		a.b = append(a.b, '/')
		a.b = hex.AppendEncode(a.b, id[:])
	}
	a.b = append(a.b, '"')
	a.fit(before, false)
}

func (a *args) attributes(attrs pcommon.Map) {
	for key, v := range attrs.All() {
		before := len(a.b)
		a.b = append(a.b, ',')
		a.b, _ = appendString(a.b, key, maxKey)
		if reserved(key) {
			// The exporter's own entry of that name may be there already.
			a.b = append(a.b[:len(a.b)-1], `_attribute"`...)
		}
		a.b = append(a.b, ':')
		var cut bool
		a.b, cut = appendValue(a.b, v, a.limit)
		a.fit(before, cut)
	}
}

func reserved(key string) bool {
	switch key {
	case "start_ns", "dur_ns", "time_ns", "trace_id", "span_id", "parent_id", "process", "status",
		"status_message", "scope", "link_count", "links", "args_left_out":
		return true
	default:
		return false
	}
}

// appendValue appends v as JSON, of text at most limit bytes.
func appendValue(b []byte, v pcommon.Value, limit int) (_ []byte, cut bool) {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return appendString(b, v.Str(), limit)
	case pcommon.ValueTypeInt:
		return appendInt(b, v.Int()), false
	case pcommon.ValueTypeBool:
		return strconv.AppendBool(b, v.Bool()), false
	case pcommon.ValueTypeDouble:
		d := v.Double()
		if math.IsNaN(d) || math.IsInf(d, 0) {
			return appendString(b, strconv.FormatFloat(d, 'g', -1, 64), limit)
		}
		return strconv.AppendFloat(b, d, 'g', -1, 64), false
	case pcommon.ValueTypeBytes:
		raw := v.Bytes()
		shown := min(raw.Len(), limit/2)
		b = append(b, '"')
		for i := range shown {
			b = hex.AppendEncode(b, []byte{raw.At(i)})
		}
		return append(b, '"'), shown < raw.Len()
	case pcommon.ValueTypeEmpty:
		return append(b, `null`...), false
	default:
		// Maps and lists, as JSON in a string: viewers show those best.
		return appendString(b, v.AsString(), limit)
	}
}
