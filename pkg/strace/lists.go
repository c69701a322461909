// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

// links chain a unit into an ageList. They live in the unit, since an
// allocated list element for each would cost one allocation per invocation.
type links[T any] struct{ older, newer *T }

// ageList keeps units by their last record, so that the one that has been
// silent longest is found at once.
type ageList[T any] struct {
	oldest, newest *T
	n              int
	// of returns the links inside a unit.
	of func(*T) *links[T]
}

func (l *ageList[T]) push(u *T) {
	at := l.of(u)
	at.older, at.newer = l.newest, nil
	if l.newest != nil {
		l.of(l.newest).newer = u
	} else {
		l.oldest = u
	}
	l.newest = u
	l.n++
}

func (l *ageList[T]) remove(u *T) {
	at := l.of(u)
	if at.older != nil {
		l.of(at.older).newer = at.newer
	} else {
		l.oldest = at.newer
	}
	if at.newer != nil {
		l.of(at.newer).older = at.older
	} else {
		l.newest = at.older
	}
	at.older, at.newer = nil, nil
	l.n--
}

func (l *ageList[T]) touch(u *T) {
	if l.newest != u {
		l.remove(u)
		l.push(u)
	}
}

// queue holds units in order. What was taken from its head is given back in
// large pieces, so that neither end costs more when it is long.
type queue[T any] struct {
	items []*T
	head  int
}

func (q *queue[T]) len() int  { return len(q.items) - q.head }
func (q *queue[T]) first() *T { return q.items[q.head] }
func (q *queue[T]) all() []*T { return q.items[q.head:] }
func (q *queue[T]) push(u *T) { q.items = append(q.items, u) }

func (q *queue[T]) pop() *T {
	u := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head*2 >= len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return u
}
