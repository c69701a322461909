// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package logdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/phasecol/phasecol/cmd/stracegen/truth"
)

const blockBytes = 256 * 1024

// file is one log with its rotated predecessors.
type file struct {
	path   string
	out    *os.File
	rotate int64
	byLine bool
	buf    []byte
	size   int64 // of the file on disk plus buf
	// next is the number the next rotated file gets: numbers only grow, so a
	// file is renamed once and never again.
	next  int
	now   truth.LogFile
	files []truth.LogFile
}

func openFile(path string, rotate int64, byLine bool) (*file, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the log folder: %w", err)
	}
	f := &file{path: path, rotate: rotate, byLine: byLine, next: 1}
	for rotate > 0 {
		_, err := os.Lstat(f.rotated())
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("looking for rotated logs: %w", err)
		}
		f.next++
	}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *file) rotated() string { return f.path + "." + strconv.Itoa(f.next) }

func (f *file) open() error {
	out, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening a log: %w", err)
	}
	st, err := out.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("opening a log: %w", err), out.Close())
	}
	f.out, f.size = out, st.Size()
	f.now = truth.LogFile{Path: f.path}
	return nil
}

// write writes text that holds so many lines and records; whole tells that the
// text ends a line, so that the file may be rotated behind it.
func (f *file) write(text []byte, lines, records int64, whole bool) error {
	f.now.Lines += lines
	f.now.Records += records
	f.now.Bytes += int64(len(text))
	f.size += int64(len(text))
	if f.byLine {
		if _, err := f.out.Write(text); err != nil {
			return fmt.Errorf("writing a log: %w", err)
		}
	} else if f.buf = append(f.buf, text...); len(f.buf) >= blockBytes {
		if err := f.flush(); err != nil {
			return err
		}
	}
	if whole && f.rotate > 0 && f.size >= f.rotate {
		return f.turn()
	}
	return nil
}

func (f *file) flush() error {
	if len(f.buf) == 0 {
		return nil
	}
	_, err := f.out.Write(f.buf)
	f.buf = f.buf[:0]
	if err != nil {
		return fmt.Errorf("writing a log: %w", err)
	}
	return nil
}

// turn gives the file its rotated name and begins a new one.
func (f *file) turn() error {
	if err := f.close(); err != nil {
		return err
	}
	if err := os.Rename(f.path, f.rotated()); err != nil {
		return fmt.Errorf("rotating a log: %w", err)
	}
	f.files[len(f.files)-1].Path = f.rotated()
	f.next++
	return f.open()
}

// close ends the current file and keeps its account.
func (f *file) close() error {
	if f.out == nil {
		return nil
	}
	err := errors.Join(f.flush(), f.out.Close())
	f.out = nil
	if f.now.Bytes > 0 || len(f.files) == 0 {
		f.files = append(f.files, f.now)
	}
	if err != nil {
		return fmt.Errorf("closing a log: %w", err)
	}
	return nil
}
