// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Latency is a duration that an engine stated, in nanoseconds.
type Latency struct {
	NS int64
	OK bool
}

// Facts is what a span's attributes state.
type Facts struct {
	RequestID, SequenceID string
	// OutputTokens is -1 when not stated.
	OutputTokens int64
	// StatusCode is 0 when not stated.
	StatusCode  int64
	Unsupported string
	// HasError is true when an error type is stated.
	HasError bool
	// Aborted is true when the finish reason is none of a normal end.
	Aborted                           bool
	Queue, TTFT, Prefill, Decode, E2E Latency
}

// Phase is the stated latency of a phase role.
func (f *Facts) Phase(r Role) Latency {
	switch r {
	case RoleQueue:
		return f.Queue
	case RolePrefill:
		return f.Prefill
	case RoleDecode:
		return f.Decode
	default:
		return Latency{}
	}
}

// Facts reads what the table has keys for. Values of a type that cannot hold
// the fact, negative ones and those that are no number count as not stated.
func (t *Table) Facts(attrs pcommon.Map) Facts {
	f := Facts{
		RequestID:    t.text(attrs, FieldRequestID),
		SequenceID:   t.text(attrs, FieldSequenceID),
		Unsupported:  t.text(attrs, FieldUnsupported),
		HasError:     t.text(attrs, FieldErrorType) != "",
		OutputTokens: -1,
		Queue:        t.latency(attrs, FieldQueue),
		TTFT:         t.latency(attrs, FieldTTFT),
		Prefill:      t.latency(attrs, FieldPrefill),
		Decode:       t.latency(attrs, FieldDecode),
		E2E:          t.latency(attrs, FieldE2E),
	}
	if n, ok := t.count(attrs, FieldOutputTokens); ok {
		f.OutputTokens = n
	}
	if n, ok := t.count(attrs, FieldStatusCode); ok {
		f.StatusCode = n
	}
	if v, ok := t.value(attrs, FieldFinishReason); ok {
		f.Aborted = aborted(v)
	}
	return f
}

// IDs reads the request and sequence id only.
func (t *Table) IDs(attrs pcommon.Map) (request, sequence string) {
	return t.text(attrs, FieldRequestID), t.text(attrs, FieldSequenceID)
}

// HasError says whether a span states an error type.
func (t *Table) HasError(attrs pcommon.Map) bool { return t.text(attrs, FieldErrorType) != "" }

func (t *Table) value(attrs pcommon.Map, f Field) (pcommon.Value, bool) {
	for _, k := range t.keys[f] {
		if v, ok := attrs.Get(k.Name); ok {
			return v, true
		}
	}
	return pcommon.Value{}, false
}

func (t *Table) text(attrs pcommon.Map, f Field) string {
	v, ok := t.value(attrs, f)
	if !ok {
		return ""
	}
	switch v.Type() {
	case pcommon.ValueTypeStr, pcommon.ValueTypeInt:
		return v.AsString()
	default:
		return ""
	}
}

func (t *Table) count(attrs pcommon.Map, f Field) (int64, bool) {
	v, ok := t.value(attrs, f)
	if !ok {
		return 0, false
	}
	switch v.Type() {
	case pcommon.ValueTypeInt:
		return v.Int(), v.Int() >= 0
	case pcommon.ValueTypeDouble:
		d := v.Double()
		return int64(d), d >= 0 && d < 1<<53
	default:
		return 0, false
	}
}

func (t *Table) latency(attrs pcommon.Map, f Field) Latency {
	for _, k := range t.keys[f] {
		v, ok := attrs.Get(k.Name)
		if !ok {
			continue
		}
		var ns float64
		switch v.Type() {
		case pcommon.ValueTypeDouble:
			ns = v.Double() * float64(k.Unit)
		case pcommon.ValueTypeInt:
			ns = float64(v.Int()) * float64(k.Unit)
		default:
			continue
		}
		if ns >= 0 && ns < math.MaxInt64/2 {
			return Latency{NS: int64(math.Round(ns)), OK: true}
		}
	}
	return Latency{}
}

// aborted reads a finish reason: one word, or the list of the choices' words.
func aborted(v pcommon.Value) bool {
	if v.Type() == pcommon.ValueTypeSlice {
		for _, item := range v.Slice().All() {
			if aborted(item) {
				return true
			}
		}
		return false
	}
	switch v.AsString() {
	case "abort", "aborted", "cancel", "canceled", "cancelled", "error", "failed",
		"disconnect", "disconnected", "timeout":
		return true
	}
	return false
}
