// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver // import "github.com/phasecol/phasecol/receiver/stracelogreceiver"

import (
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/fileclock"
)

const (
	// fileIdle is how long a file may bring nothing before it is forgotten;
	// it is recognised anew when it does.
	fileIdle = 10 * time.Minute
	// reportEvery is how often the bytes behind are measured.
	reportEvery = 5 * time.Second
	// catchingUp is from how many bytes behind on progress is logged.
	catchingUp = 64 << 20
)

// file is what is known of one path.
type file struct {
	path     string
	scope    string
	identity container.Identity
	clock    strace.FileClock
	join     container.Joiner
	// offset is behind the last block read.
	offset int64
	used   time.Time
	// notedPID is the process that NoteFile was last called for.
	notedPID int32
}

// files keeps the paths that bring blocks, and whose file a process writes.
// The reader's lock guards it.
type files struct {
	format   container.Format
	byPath   map[string]*file
	owners   map[dropKey]*file
	reported time.Time
	behind   int64
}

func newFiles(format container.Format) *files {
	return &files{format: format, byPath: map[string]*file{}, owners: map[dropKey]*file{}}
}

// get finds the file at path or takes a first look at it.
func (fs *files) get(path string, now time.Time, logger *zap.Logger) *file {
	if f, ok := fs.byPath[path]; ok {
		f.used = now
		if written := fileclock.Written(path, now); written != f.clock.Written {
			f.clock.Written = written
			f.notedPID = -1
		}
		return f
	}
	f := &file{path: path, scope: container.ScopeKey(path), used: now, notedPID: -1}
	f.identity, _ = container.IdentityOf(path)
	clock, err := fileclock.Of(path, fs.format, now)
	if err != nil {
		// A file that was renamed or deleted since is still read from its open
		// handle; only these clock sources are missing.
		logger.Debug("no clock from the file system", zap.String("path", path), zap.Error(err))
	}
	f.clock = clock
	fs.byPath[path] = f
	return f
}

// owns notes that f brings records of pid.
func (fs *files) owns(f *file, pid int32) { fs.owners[dropKey{f.scope, pid}] = f }

func (fs *files) owner(scope string, pid int32) *file { return fs.owners[dropKey{scope, pid}] }

// endPoll forgets files that have brought nothing for long.
func (fs *files) endPoll(now time.Time) {
	for path, f := range fs.byPath {
		if now.Sub(f.used) > fileIdle {
			delete(fs.byPath, path)
		}
	}
	for key, f := range fs.owners {
		if now.Sub(f.used) > fileIdle {
			delete(fs.owners, key)
		}
	}
}

// report measures how far reading is behind what is written.
func (fs *files) report(now time.Time, tel *telemetry, logger *zap.Logger) {
	if now.Sub(fs.reported) < reportEvery {
		return
	}
	fs.reported = now
	before := fs.behind
	fs.behind = 0
	for path, f := range fs.byPath {
		// A compressed file's offset counts unpacked bytes: it is beyond the size.
		if info, err := os.Stat(path); err == nil {
			fs.behind += max(0, info.Size()-f.offset)
		}
	}
	tel.behind.Store(fs.behind)
	if fs.behind >= catchingUp {
		logger.Info("catching up with the logs", zap.Int64("bytes_behind", fs.behind), zap.Int64("read_since_last", before-fs.behind))
	}
}
