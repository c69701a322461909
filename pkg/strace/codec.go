// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import (
	"encoding/binary"
	"errors"
)

var errSnapshot = errors.New("strace: snapshot is damaged")

// encoder appends the snapshot's primitives: varints and length-prefixed
// bytes.
type encoder struct{ b []byte }

func (e *encoder) uint(v uint64)  { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)    { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) count(n int)    { e.uint(uint64(n)) }
func (e *encoder) bytes(p []byte) { e.count(len(p)); e.b = append(e.b, p...) }
func (e *encoder) string(s string) {
	e.count(len(s))
	e.b = append(e.b, s...)
}

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

// decoder reads them back. After the first damage it returns zeroes; callers
// check err where they are about to trust a value.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads a number of items that each take at least one byte, so that a
// damaged one cannot ask for more memory than the snapshot has.
func (d *decoder) count() int {
	v := d.uint()
	if v > uint64(len(d.b)) {
		d.fail()
		return 0
	}
	return int(v)
}

// bytes returns a part of the snapshot, not a copy.
func (d *decoder) bytes() []byte {
	n := d.count()
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) bool() bool {
	if len(d.b) == 0 {
		d.fail()
		return false
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v != 0
}

func (d *decoder) fail() {
	d.b = nil
	if d.err == nil {
		d.err = errSnapshot
	}
}
