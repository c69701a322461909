// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver // import "github.com/phasecol/phasecol/receiver/stracelogreceiver"

import (
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// reportEvery is how often a long catching up is logged.
	reportEvery = 5 * time.Second
	// catchingUp is from how many bytes behind on it is.
	catchingUp = 64 << 20
)

// backlog measures how far reading is behind what is written. It has a lock of
// its own: while the next component refuses, the number grows and must be seen.
type backlog struct {
	mu       sync.Mutex
	files    map[string]*progress
	poll     uint64
	reported time.Time
	last     int64
}

// progress is how far one file was read.
type progress struct {
	offset int64
	packed bool
	poll   uint64
	used   time.Time
}

func newBacklog() *backlog { return &backlog{files: map[string]*progress{}} }

// read notes that the file at path was read up to offset.
func (b *backlog) read(path string, offset int64, packed bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.files[path]
	if p == nil {
		p = &progress{}
		b.files[path] = p
	}
	p.offset, p.packed, p.poll, p.used = offset, packed, b.poll, now
}

// endPoll notes that every file was read to its end. The offset of one that
// brought something lies before what it brought that is no marker.
func (b *backlog) endPoll(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for path, p := range b.files {
		if now.Sub(p.used) > fileIdle {
			delete(b.files, path)
		} else if p.poll == b.poll {
			p.offset = max(p.offset, size(path))
		}
	}
	b.poll++
}

// bytes sums what the known files hold beyond their offsets. The offset of a
// compressed file counts unpacked bytes, so that file is left out.
func (b *backlog) bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	var behind int64
	for path, p := range b.files {
		if !p.packed {
			behind += max(0, size(path)-p.offset)
		}
	}
	return behind
}

// report logs the progress of a long catching up.
func (b *backlog) report(now time.Time, logger *zap.Logger) {
	if b.mu.Lock(); now.Sub(b.reported) < reportEvery {
		b.mu.Unlock()
		return
	}
	b.reported = now
	before := b.last
	b.mu.Unlock()
	behind := b.bytes()
	b.mu.Lock()
	b.last = behind
	b.mu.Unlock()
	if behind >= catchingUp {
		logger.Info("catching up with the logs", zap.Int64("bytes_behind", behind), zap.Int64("read_since_last", before-behind))
	}
}

// size is 0 for a file that is gone.
func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
