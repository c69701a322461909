// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver // import "github.com/phasecol/phasecol/receiver/stracelogreceiver"

import (
	"os"
	"time"

	"github.com/phasecol/phasecol/internal/stracepdata/feed"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/fileclock"
)

const (
	// fileIdle is how long a file may bring nothing before it is forgotten; it
	// is recognised anew when it does.
	fileIdle = 10 * time.Minute
	// lookAgain is how long after a look that told nothing of its last record a
	// file is looked at again.
	lookAgain = 5 * time.Second
)

// file is what is known of one path.
type file struct {
	feed.Source
	path   string
	scope  string
	join   container.Joiner
	packed bool
	// info is the file that was looked at: another one may take its path.
	info os.FileInfo
	// head is the hash of its beginning, 0 while it is too short.
	head uint64
	// read is how much of what a compressed file holds was read before it was
	// compressed.
	read int64
	// offset is behind what it brought last.
	offset int64
	// waiting are the blocks that were read and not filed yet, at is where the
	// last of them begins in log time.
	waiting []queued
	at      int64
	// queueing is set once the file is in its scope's lane; full when the last
	// call brought all it could, so that more may come; waited is for how long
	// others have waited for that.
	queueing, full bool
	waited         time.Duration
	counted        time.Time
	// looked is when the file's clock was read, used when it last brought
	// something.
	looked, used time.Time
	// poll is the poll that last brought something.
	poll uint64
}

// files keeps the paths that bring blocks. The reader's lock guards it.
type files struct {
	byPath map[string]*file
	// poll counts ends of polls.
	poll uint64
	// pieces wait for their files after a restart.
	pieces map[string][container.NumStreams][]byte
	// owners finds the file that a process writes, where its path is wanted.
	owners map[owner]string
	// heads tells how far a file was read, by the hash of its beginning.
	heads map[uint64]int64
}

// maxHeads bounds the files that are known by their beginnings.
const maxHeads = 4096

type owner struct {
	scope string
	pid   int32
}

func newFiles() *files {
	return &files{
		byPath: map[string]*file{}, pieces: map[string][container.NumStreams][]byte{}, owners: map[owner]string{},
		heads: map[uint64]int64{},
	}
}

// get finds the file at path, or begins to know it.
func (fs *files) get(path string, now time.Time) *file {
	f, ok := fs.byPath[path]
	if !ok {
		f = &file{path: path, scope: container.ScopeKey(path)}
		fs.byPath[path] = f
		f.join.Resume(fs.pieces[path])
		delete(fs.pieces, path)
	}
	f.used, f.poll = now, fs.poll
	return f
}

// wantsLook reports whether the file at path, which brings something from
// offset on, should be looked at: it is new, another one took its path, it
// began anew, or a former look told too little.
func (fs *files) wantsLook(path string, offset int64, info os.FileInfo, now time.Time, mtime bool) bool {
	f, ok := fs.byPath[path]
	switch {
	case !ok, offset < f.offset, info != nil && f.info != nil && !os.SameFile(info, f.info):
		return true
	case now.Sub(f.looked) < lookAgain:
		return false
	default:
		return (mtime && f.Clock.Mtime == 0) || (f.head == 0 && info != nil && info.Size() >= fileclock.HeadSize)
	}
}

// see takes what a look told.
func (fs *files) see(f *file, look *fileclock.Look, now time.Time) {
	f.Clock, f.packed, f.head, f.info, f.looked = look.Clock, look.Packed, look.Head, look.Info, now
	f.Changed()
	f.read = 0
	// fileconsumer knows a file that was compressed meanwhile by its beginning
	// and goes on where it was, but for one that became smaller than what was
	// read of it: that it takes for truncated and reads again.
	if read := fs.heads[f.head]; f.packed && f.info != nil && read > f.info.Size() {
		f.read = read
	}
}

// readTo notes that the file was read up to offset.
func (fs *files) readTo(f *file, offset int64) {
	f.offset = offset
	if f.packed || f.head == 0 {
		return
	}
	if _, known := fs.heads[f.head]; !known && len(fs.heads) >= maxHeads {
		clear(fs.heads) // at worst a file is read twice
	}
	fs.heads[f.head] = offset
}

// written notes when the file was last written to. A file that is gone was in
// use until just now, as far as anyone can tell.
func (f *file) written(info os.FileInfo, now time.Time) {
	at := now.UnixNano()
	if info != nil {
		at = info.ModTime().UnixNano()
	}
	if at != f.Clock.Written {
		f.Clock.Written = at
		f.Changed()
	}
}

// unpacking reports whether a compressed file was read since the last end of
// a poll.
func (fs *files) unpacking() bool {
	for _, f := range fs.byPath {
		if f.packed && f.poll == fs.poll {
			return true
		}
	}
	return false
}

// endPoll forgets files that have brought nothing for long.
func (fs *files) endPoll(now time.Time) {
	fs.poll++
	for path, f := range fs.byPath {
		if now.Sub(f.used) > fileIdle {
			delete(fs.byPath, path)
		}
	}
}

// owns notes that the file at path brings records of pid, within max entries.
func (fs *files) owns(f *file, pid int32, limit int) {
	key := owner{f.scope, pid}
	if _, known := fs.owners[key]; !known && len(fs.owners) >= limit {
		clear(fs.owners) // each comes back with its next record
	}
	fs.owners[key] = f.path
}
