// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package index

import "slices"

// lateLimit is how many out-of-order entries wait before they are merged
// without a question having asked for it.
const lateLimit = 4096

// counts answers how many of its numbers lie below a limit. Numbers mostly
// arrive in order; the others wait in late until the next question.
type counts struct {
	sorted []int64
	late   []int64
}

func (c *counts) add(x int64) {
	if n := len(c.sorted); n == 0 || x >= c.sorted[n-1] {
		c.sorted = append(c.sorted, x)
		return
	}
	c.late = append(c.late, x)
	if len(c.late) >= lateLimit {
		c.settle()
	}
}

// settle merges late into sorted, from the end, touching no more of it than
// lies behind the earliest late number.
func (c *counts) settle() {
	if len(c.late) == 0 {
		return
	}
	slices.Sort(c.late)
	i := len(c.sorted) - 1
	c.sorted = append(c.sorted, c.late...)
	k := len(c.sorted) - 1
	for j := len(c.late) - 1; j >= 0; k-- {
		if i >= 0 && c.sorted[i] > c.late[j] {
			c.sorted[k] = c.sorted[i]
			i--
		} else {
			c.sorted[k] = c.late[j]
			j--
		}
	}
	c.late = c.late[:0]
}

// below is how many numbers are < x.
func (c *counts) below(x int64) int {
	c.settle()
	n, _ := slices.BinarySearch(c.sorted, x)
	return n
}

// upTo is how many numbers are <= x.
func (c *counts) upTo(x int64) int {
	return c.below(x + 1)
}

// drop removes the n smallest.
func (c *counts) drop(n int) {
	c.settle()
	c.sorted = c.sorted[n:]
}

// spans counts intervals by their two ends.
type spans struct {
	starts, ends counts
}

func (s *spans) add(start, end int64) {
	s.starts.add(start)
	s.ends.add(end)
}

// overlapping is how many intervals share more than a point with [from, to):
// those that start before its end, less those that end by its start.
func (s *spans) overlapping(from, to int64) int {
	return s.starts.below(to) - s.ends.upTo(from)
}

// dropUpTo forgets the intervals that end by h. Any as many starts may go as
// ends do: the answer for an interval from h on counts all of either.
func (s *spans) dropUpTo(h int64) {
	n := s.ends.upTo(h)
	s.ends.drop(n)
	s.starts.drop(n)
}

func (s *spans) len() int { return len(s.ends.sorted) + len(s.ends.late) }
