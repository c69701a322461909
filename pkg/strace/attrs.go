// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import "bytes"

// AttrIter walks the k=v pairs of a record's raw attribute text. A token
// without '=' belongs to the value before it; one with no value before it is
// a key of its own with an empty value.
type AttrIter struct{ rest []byte }

// NewAttrIter walks attrs, which it does not copy.
func NewAttrIter(attrs []byte) AttrIter { return AttrIter{rest: attrs} }

// Next returns the next pair, undecoded and aliasing the text.
func (it *AttrIter) Next() (key, value []byte, ok bool) {
	b := bytes.TrimLeft(it.rest, " ")
	if len(b) == 0 {
		it.rest = nil
		return nil, nil, false
	}
	end := tokenEnd(b, 0)
	eq := bytes.IndexByte(b[:end], '=')
	if eq <= 0 {
		it.rest = b[end:]
		return b[:end], nil, true
	}
	// Extend the value over following tokens that hold no '='.
	last := end
	for next := end; next < len(b); {
		for next < len(b) && b[next] == ' ' {
			next++
		}
		stop := tokenEnd(b, next)
		if stop == next || bytes.IndexByte(b[next:stop], '=') >= 0 {
			break
		}
		last, next = stop, stop
	}
	it.rest = b[last:]
	return b[:eq], b[eq+1 : last], true
}

func tokenEnd(b []byte, from int) int {
	if i := bytes.IndexByte(b[from:], ' '); i >= 0 {
		return from + i
	}
	return len(b)
}

// Attr returns the first value under key, undecoded.
func Attr(attrs []byte, key string) (value []byte, ok bool) {
	for it := NewAttrIter(attrs); ; {
		k, v, more := it.Next()
		if !more {
			return nil, false
		}
		if string(k) == key {
			return v, true
		}
	}
}

// AppendDecoded appends src to dst with %XX (upper-case hex, grammar v1)
// decoded; anything that is no valid escape stays as written.
func AppendDecoded(dst, src []byte) []byte {
	for {
		i := bytes.IndexByte(src, '%')
		if i < 0 {
			return append(dst, src...)
		}
		dst = append(dst, src[:i]...)
		src = src[i:]
		if len(src) >= 3 && upperHex(src[1]) >= 0 && upperHex(src[2]) >= 0 {
			dst = append(dst, byte(upperHex(src[1])<<4|upperHex(src[2])))
			src = src[3:]
			continue
		}
		dst = append(dst, '%')
		src = src[1:]
	}
}

func upperHex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}

// ParseInt reads a value that is exactly one decimal integer in its shortest
// form within int64. Others ("007", "-0", "1e3", 2^63) are text: turning them
// into numbers would lose how they were written.
func ParseInt(b []byte) (int64, bool) {
	digits := b
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		digits = b[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || (digits[0] == '0' && (neg || len(digits) > 1)) {
		return 0, false
	}
	var v uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	switch {
	case neg && v <= 1<<63:
		return int64(-v), true
	case !neg && v < 1<<63:
		return int64(v), true
	default:
		return 0, false
	}
}

// Identity is what ties node records and chip roots together. Has* bits tell
// which keys were printed.
type Identity struct {
	RunID, DispatchID, Generation uint64
	TaskSlot, WorkerID, SlotID    int64
	Has                           IdentityBits
}

// IdentityBits is a set of identity keys.
type IdentityBits uint8

// The identity keys.
const (
	HasRunID IdentityBits = 1 << iota
	HasDispatchID
	HasGeneration
	HasTaskSlot
	HasWorkerID
	HasSlotID
)

// ParseIdentity reads the identity keys out of raw attributes; a value that is
// no number counts as absent.
func ParseIdentity(attrs []byte) Identity {
	var id Identity
	for it := NewAttrIter(attrs); ; {
		k, v, ok := it.Next()
		if !ok {
			return id
		}
		switch string(k) {
		case "run_id":
			id.setUint(&id.RunID, v, HasRunID)
		case "dispatch_id":
			id.setUint(&id.DispatchID, v, HasDispatchID)
		case "generation":
			id.setUint(&id.Generation, v, HasGeneration)
		case "task_slot":
			id.setInt(&id.TaskSlot, v, HasTaskSlot)
		case "worker_id":
			id.setInt(&id.WorkerID, v, HasWorkerID)
		case "slot_id":
			id.setInt(&id.SlotID, v, HasSlotID)
		}
	}
}

func (id *Identity) setUint(field *uint64, v []byte, bit IdentityBits) {
	n, digits, ok := parseUint(v)
	if ok && digits == len(v) {
		*field, id.Has = n, id.Has|bit
	}
}

func (id *Identity) setInt(field *int64, v []byte, bit IdentityBits) {
	if n, ok := ParseInt(v); ok {
		*field, id.Has = n, id.Has|bit
	}
}
