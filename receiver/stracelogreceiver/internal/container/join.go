// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package container // import "github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"

import "github.com/phasecol/phasecol/internal/stracepdata/marker"

// MaxJoined bounds a line put together from pieces. Runtimes cut at 16 KiB and
// a record has 512 bytes; of a longer line its parts are handed out as they
// fill up.
const MaxJoined = 64 << 10

// Joiner puts the pieces of split lines together again, per stream of one
// file. The zero value is ready.
type Joiner struct {
	pending [NumStreams][]byte
	// out is what Add returned last, in memory of its own.
	out []byte
}

// Add takes the next line. ready is true when text is a whole line, or with
// ended false a part of an overlong one that cuts no record; it is valid until
// the next call.
func (j *Joiner) Add(line *Line) (text []byte, ready, ended bool) {
	p := &j.pending[line.Stream]
	if !line.Partial {
		if len(*p) == 0 {
			return line.Text, true, true
		}
		j.out = append(append(j.out[:0], *p...), line.Text...)
		*p = (*p)[:0]
		return j.out, true, true
	}
	*p = append(*p, line.Text...)
	if len(*p) < MaxJoined {
		return nil, false, false
	}
	cut := marker.CutLong(*p)
	j.out = append(j.out[:0], (*p)[:cut]...)
	*p = append((*p)[:0], (*p)[cut:]...)
	return j.out, true, false
}

// Pending reports whether a piece of the stream waits for the rest.
func (j *Joiner) Pending(s Stream) bool { return len(j.pending[s]) > 0 }

// Pieces returns what waits for the rest; the caller must not keep it.
func (j *Joiner) Pieces() [NumStreams][]byte { return j.pending }

// Resume sets what waits, after a restart. It copies the pieces.
func (j *Joiner) Resume(pieces [NumStreams][]byte) {
	for i, p := range pieces {
		j.pending[i] = append([]byte(nil), p[:min(len(p), MaxJoined)]...)
	}
}
