// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package input // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/input"

import (
	"container/heap"
	"errors"
	"io"
	"sync/atomic"

	"github.com/phasecol/phasecol/pkg/strace"
)

// Reader walks groups of files one after the other, and the files of a group
// side by side in the order of their log times.
type Reader struct {
	// Names interns what all sources find. It belongs to whoever calls Next.
	Names *strace.Names
	// Stdin is what the path "-" reads.
	Stdin io.Reader
	// BindPhases asks for KindBindPhase items.
	BindPhases bool

	groups  []Group
	group   int
	opened  bool
	pending sourceHeap
	current *Source
	errs    []error
	taken   atomic.Int64
}

// NewReader reads groups; names must not be used by anything else while Next
// runs.
func NewReader(groups []Group, names *strace.Names, stdin io.Reader) *Reader {
	return &Reader{groups: groups, Names: names, Stdin: stdin}
}

// Next returns the source that found the next item, whose Scanner holds it,
// and the index of the group it belongs to; nil at the end. A file that cannot
// be read ends early and does not end the others: Err tells.
func (r *Reader) Next() (source *Source, kind strace.Kind, group int) {
	for {
		if s := r.advance(); s != nil {
			return s, s.kind, r.group
		}
		if r.opened {
			r.group++
			r.opened = false
		}
		if r.group == len(r.groups) {
			return nil, strace.KindNone, r.group
		}
		r.open()
	}
}

// open opens the current group's files and finds the first item of each.
func (r *Reader) open() {
	r.opened = true
	files := r.groups[r.group].Files
	size := min(max(8<<20/len(files), minBuffer), maxBuffer)
	for _, path := range files {
		s, err := open(path, r.Stdin, r.Names, size, func(n int) { r.taken.Add(int64(n)) })
		if err != nil {
			r.errs = append(r.errs, err)
			continue
		}
		s.phases = r.BindPhases
		if r.step(s) {
			r.pending = append(r.pending, s)
		}
	}
	heap.Init(&r.pending)
}

// step finds the source's next item, or closes it.
func (r *Reader) step(s *Source) bool {
	kind, ok := s.Next()
	if ok {
		s.kind = kind
		return true
	}
	if err := errors.Join(s.Err(), s.Close()); err != nil {
		r.errs = append(r.errs, err)
	}
	return false
}

// advance returns the source whose item is next, nil at the group's end. The
// item stays valid until the next call.
func (r *Reader) advance() *Source {
	if s := r.current; s != nil {
		r.current = nil
		if r.step(s) {
			if len(r.pending) == 0 || s.key <= r.pending[0].key {
				r.current = s
				return s
			}
			heap.Push(&r.pending, s)
		}
	}
	if len(r.pending) == 0 {
		return nil
	}
	r.current = heap.Pop(&r.pending).(*Source)
	return r.current
}

// Taken is how many bytes of the files were read; any goroutine may ask.
func (r *Reader) Taken() int64 { return r.taken.Load() }

// Err joins what went wrong with single files.
func (r *Reader) Err() error { return errors.Join(r.errs...) }

// Close closes what is still open, for an early end.
func (r *Reader) Close() error {
	var errs []error
	if r.current != nil {
		errs = append(errs, r.current.Close())
	}
	for _, s := range r.pending {
		errs = append(errs, s.Close())
	}
	r.current, r.pending = nil, nil
	return errors.Join(errs...)
}

// sourceHeap orders sources by the log time of the item they hold.
type sourceHeap []*Source

func (h sourceHeap) Len() int           { return len(h) }
func (h sourceHeap) Less(i, j int) bool { return h[i].key < h[j].key }
func (h sourceHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *sourceHeap) Push(x any)        { *h = append(*h, x.(*Source)) }
func (h *sourceHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return s
}
