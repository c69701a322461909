// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package container // import "github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"

// MaxJoined bounds a line put together from pieces. Runtimes cut at 16 KiB and
// a record has 512 bytes, so what is dropped beyond this holds none that the
// runtime wrote whole.
const MaxJoined = 64 << 10

// Joiner puts the pieces of split lines together again, per stream of one
// file. The zero value is ready.
type Joiner struct{ pending [NumStreams][]byte }

// Add takes the next line. whole is true when text is a whole line, which is
// valid until the next call. dropped tells how many bytes did not fit.
func (j *Joiner) Add(line Line) (text []byte, whole bool, dropped int) {
	p := &j.pending[line.Stream]
	if !line.Partial && len(*p) == 0 {
		return line.Text, true, 0
	}
	room := min(MaxJoined-len(*p), len(line.Text))
	*p = append(*p, line.Text[:room]...)
	dropped = len(line.Text) - room
	if line.Partial {
		return nil, false, dropped
	}
	text = *p
	*p = (*p)[:0]
	return text, true, dropped
}
