// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package feed // import "github.com/phasecol/phasecol/internal/stracepdata/feed"

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/phasecol/phasecol/pkg/strace"
)

// AppendSnapshot appends all that is pending, and what was last reported as
// lost, to dst.
func (f *Feed) AppendSnapshot(dst []byte) []byte {
	keys := slices.SortedFunc(maps.Keys(f.losses), func(a, b processKey) int {
		return cmp.Or(cmp.Compare(a.scope, b.scope), cmp.Compare(a.pid, b.pid))
	})
	dst = binary.AppendUvarint(dst, uint64(len(keys)))
	for _, key := range keys {
		dst = AppendBytes(dst, []byte(key.scope))
		dst = binary.AppendVarint(dst, int64(key.pid))
		d := f.losses[key]
		for _, v := range [...]uint64{d.Total, d.QueueFull, d.ClaimExhausted, d.OutputFailed, d.NotAdmitted} {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	return f.Assembler.AppendSnapshot(dst)
}

// Restore fills an empty feed from a snapshot at the wall time now, Unix ns.
func (f *Feed) Restore(snapshot []byte, now int64) error {
	count, b, err := CutUvarint(snapshot)
	if err != nil {
		return err
	}
	for range count {
		var scope []byte
		if scope, b, err = CutBytes(b); err != nil {
			return err
		}
		pid, n := binary.Varint(b)
		if n <= 0 {
			return ErrDamaged
		}
		b = b[n:]
		d := strace.Drops{PID: int32(pid)}
		for _, v := range [...]*uint64{&d.Total, &d.QueueFull, &d.ClaimExhausted, &d.OutputFailed, &d.NotAdmitted} {
			if *v, b, err = CutUvarint(b); err != nil {
				return err
			}
		}
		f.losses[processKey{string(scope), d.PID}] = d
	}
	if err := f.Assembler.Restore(b, now); err != nil {
		return fmt.Errorf("restoring the assembler: %w", err)
	}
	return nil
}

// ErrDamaged says that a snapshot is not what was written.
var ErrDamaged = errors.New("the stored snapshot is damaged")

// AppendBytes appends p to dst behind its length.
func AppendBytes(dst, p []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p)))
	return append(dst, p...)
}

// CutBytes takes what AppendBytes wrote off b, without copying it.
func CutBytes(b []byte) (p, rest []byte, err error) {
	n, rest, err := CutUvarint(b)
	if err != nil || n > uint64(len(rest)) {
		return nil, nil, ErrDamaged
	}
	return rest[:n], rest[n:], nil
}

// CutUvarint takes a number off b.
func CutUvarint(b []byte) (v uint64, rest []byte, err error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, ErrDamaged
	}
	return v, b[n:], nil
}
