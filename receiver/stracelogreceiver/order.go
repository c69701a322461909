// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver // import "github.com/phasecol/phasecol/receiver/stracelogreceiver"

import (
	"context"
	"time"

	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
)

const (
	// fullCallback is how many tokens fileconsumer passes at once at most: a
	// file that brings fewer was read to its end.
	fullCallback = 100
	// maxQueued bounds the text that waits for its turn, beside what one call
	// of each file brings.
	maxQueued = 32 << 20
	// defaultGrace is how long the first files of a poll that bring much wait
	// for others to show up at least, expectFor how long at most for those that
	// have much to bring. defaultPatience is how long a file that brought much
	// may take to bring more before it counts as read; what waits for its run
	// must not be given up meanwhile.
	defaultGrace    = 100 * time.Millisecond
	expectFor       = 5 * time.Second
	defaultPatience = 500 * time.Millisecond
	// muchUnread is from how much on a file brings something for certain, if
	// only progress.
	muchUnread = 128 << 10
	// settleEvery is how often complete traces leave while a poll goes on.
	settleEvery = 100 * time.Millisecond
	// nap is how long a file waits at a time for another of its scope.
	nap = 2 * time.Millisecond
)

// fileconsumer reads all files side by side, each as fast as it can. That is
// right for what was just written. A backlog would come apart: the end of an
// invocation in a newer file before its beginning in the rotated one, and
// workers minutes ahead of the process that dispatched to them. So what files
// bring is put in the order of the log's own time before it is filed: at the
// end of a poll, or when a file brings so much that it cannot wait until then.

// queued is a block of lines that waits for its turn.
type queued struct {
	text []byte
	// at is the log time at which it begins, nanoseconds of the host's
	// monotonic clock.
	at int64
	// now is when it was read, Unix ns.
	now int64
}

// lane is a scope's files that brought something in this poll.
type lane struct {
	files []*file
	// others is set when files that have brought nothing yet may do so.
	others bool
	// expected are those that have much to bring and have brought nothing yet.
	expected map[string]bool
	// filed is the latest log time at which a block that was filed begins.
	filed int64
}

// queue takes what a file brings.
func (r *reader) queue(f *file, tokens [][]byte, offsets []int64, now int64) {
	l := r.lanes[f.scope]
	if l == nil {
		l = &lane{}
		r.lanes[f.scope] = l
		if len(r.lanes) == 1 {
			r.pollBegan = time.Now()
		}
	}
	if !f.queueing {
		f.queueing = true
		l.files = append(l.files, f)
		delete(l.expected, f.path)
	}
	f.full, f.waited = len(tokens) == fullCallback, 0
	for i, text := range tokens {
		if len(text) == 0 || offsets[i+1] <= f.read {
			continue // it only reports progress, or was read before
		}
		f.at = max(f.at, r.times.of(r.format, text))
		f.waiting = append(f.waiting, queued{text, f.at, now})
		r.queuedBytes += len(text)
	}
	switch {
	case f.full:
		r.catchUp(l, f)
	case r.queuedBytes > maxQueued:
		r.fileAll()
	}
}

// catchUp files the lane in order until f has nothing left.
func (r *reader) catchUp(l *lane, f *file) {
	if !r.expecting {
		r.expecting = true
		r.expect()
	}
	for len(f.waiting) > 0 {
		if !r.stopping && r.awaits(l, f) {
			r.nap(l, f)
			continue
		}
		r.fileNext(l)
		r.pace(l, f)
	}
	r.settle(settleEvery)
}

// pace lets what is complete leave before what is held comes near its bound:
// reading may be faster than a closed invocation lingers.
func (r *reader) pace(l *lane, f *file) {
	full := r.cfg.Limits.Bytes / 2
	began := time.Now()
	for !r.disorder && !r.stopping && !r.crowded && r.feed.Assembler.Stats().HeldBytes > full {
		r.settle(nap)
		if r.feed.Assembler.Stats().HeldBytes <= full {
			return
		}
		if time.Since(began) > 2*r.cfg.Linger {
			r.crowded = true // what is held is no more complete than before
			return
		}
		r.nap(l, f)
	}
}

// expect notes which files have much to bring in this poll.
func (r *reader) expect() {
	paths, err := r.matcher.MatchFiles()
	if err != nil {
		return // those that cannot be looked at bring nothing
	}
	for _, path := range paths {
		f, known := r.files.byPath[path]
		fromEnd := !known && r.cfg.StartAt == "end" && r.files.poll == 0
		if fromEnd || (known && (f.packed || f.queueing)) {
			continue
		}
		unread := size(path)
		if known {
			unread -= f.offset
		}
		if unread <= 0 || unread == r.inVain[path] {
			continue
		}
		scope := container.ScopeKey(path)
		l := r.lanes[scope]
		if l == nil {
			l = &lane{}
			r.lanes[scope] = l
		}
		l.others = true
		if unread < muchUnread {
			continue
		}
		if l.expected == nil {
			l.expected = map[string]bool{}
		}
		l.expected[path] = true
	}
}

// awaits reports whether another file may still bring earlier lines than those
// that wait.
func (r *reader) awaits(l *lane, f *file) bool {
	if passed := time.Since(r.pollBegan); (l.others && passed < r.grace) || (len(l.expected) > 0 && passed < expectFor) {
		return true
	}
	for _, g := range l.files {
		if g != f && g.full && len(g.waiting) == 0 {
			return true
		}
	}
	return false
}

// nap gives others the lock for a moment. Whom it waits for in vain for long
// enough has been read.
func (r *reader) nap(l *lane, f *file) {
	ctx := r.ctx
	r.mu.Unlock()
	pause(ctx, nap)
	r.mu.Lock()
	// Only naps count, once for all who take them: the lock may have been kept
	// for minutes by a delivery.
	now := time.Now()
	for _, g := range l.files {
		if g == f || !g.full || len(g.waiting) > 0 || now.Sub(g.counted) < nap {
			continue
		}
		g.counted = now
		if g.waited += nap; g.waited >= r.patience {
			g.full = false
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// fileNext files the lane's earliest block.
func (r *reader) fileNext(l *lane) {
	var first *file
	for _, f := range l.files {
		if len(f.waiting) > 0 && (first == nil || f.waiting[0].at < first.waiting[0].at) {
			first = f
		}
	}
	b := first.waiting[0]
	first.waiting[0] = queued{}
	if first.waiting = first.waiting[1:]; len(first.waiting) == 0 {
		first.waiting = nil
	}
	r.queuedBytes -= len(b.text)
	if b.at < l.filed-int64(r.cfg.Linger) {
		r.disorder = true
	}
	l.filed = max(l.filed, b.at)
	r.block(first, b.text, b.now)
}

// fileAll files everything that waits.
func (r *reader) fileAll() {
	for _, l := range r.lanes {
		for _, f := range l.files {
			for len(f.waiting) > 0 {
				r.fileNext(l)
			}
		}
	}
}

// settle lets complete traces leave in the middle of a long poll. In order,
// nothing of them is still to come; otherwise they wait for the poll's end.
func (r *reader) settle(every time.Duration) {
	if r.disorder || r.stopping || time.Since(r.settled) < every {
		return
	}
	r.settled = time.Now()
	r.feed.Assembler.EndPoll(r.now().UnixNano())
}

// endOrder files the rest of the poll.
func (r *reader) endOrder() {
	r.fileAll()
	for _, l := range r.lanes {
		for _, f := range l.files {
			f.queueing, f.full, f.at = false, false, 0
		}
	}
	clear(r.inVain)
	for _, l := range r.lanes {
		for path := range l.expected {
			// fileconsumer knows how far it was read, and brings nothing.
			unread := size(path)
			if f, known := r.files.byPath[path]; known {
				unread -= f.offset
			}
			r.inVain[path] = unread
		}
	}
	clear(r.lanes)
	r.expecting = false
	r.disorder, r.crowded = false, false
}
