// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	opening = "["
	closing = "\n]"

	// pageSize is the unit in which a kernel copies a write into its page cache
	// without looking whether the process was killed. Larger pages are
	// multiples of it.
	pageSize = 4096
	// maxEvent is the longest event that still shares a page with its comma.
	maxEvent = pageSize - len(",\n")

	// writeChunk is how much is gathered before it is written without waiting
	// for the flush interval.
	writeChunk = 256 << 10
)

// storage is what a trace file needs of the operating system's file. Tests
// have a second one, which records every write.
type storage interface {
	io.WriterAt
	io.Closer
	Truncate(size int64) error
}

func openFile(path string) (storage, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644) //nolint:gosec // a trace is for the people on the host to read
}

// traceFile is the live file. Not safe for concurrent use.
//
// The file is a JSON array, one event a line. Every write starts where the
// closing bracket is and ends with a new one, so between writes the file is
// complete JSON. A process killed within a write has written a whole number of
// pages of it; no event crosses the border of a page (spaces fill up what is
// left of one), so the file is then whole events without the closing bracket,
// which the format allows and viewers accept.
type traceFile struct {
	path   string // of the live file
	open   func(path string) (storage, error)
	file   storage
	number uint64 // of this file, from 1; rises with each new one
	opened time.Time
	empty  bool // no event yet

	// at is where buf belongs in the file: the place of the closing bracket.
	at  int64
	buf []byte
}

// create begins the first file, or one in place of a file that is lost.
func (f *traceFile) create(now time.Time) error {
	next, err := f.prepare()
	if err != nil {
		return err
	}
	if err := os.Rename(f.temporary(), f.path); err != nil {
		return errors.Join(fmt.Errorf("creating trace file: %w", err), f.discard(next))
	}
	return f.adopt(next, now)
}

// rotate moves the file to a name of its own and begins the next. It reports
// whether that was done; where it was not, the file stays in use.
func (f *traceFile) rotate(now time.Time) (done bool, err error) {
	target, err := backupPath(f.path, now)
	if err != nil {
		return false, err
	}
	// The next file must be there first: with a full disk there is none.
	next, err := f.prepare()
	if err != nil {
		return false, err
	}
	if err := os.Rename(f.path, target); err != nil {
		return false, errors.Join(fmt.Errorf("rotating trace file: %w", err), f.discard(next))
	}
	if err := os.Rename(f.temporary(), f.path); err != nil {
		return false, errors.Join(fmt.Errorf("rotating trace file: %w", err), os.Rename(target, f.path), f.discard(next))
	}
	return true, f.adopt(next, now)
}

func (f *traceFile) temporary() string { return f.path + ".tmp" }

// prepare makes the next file, a complete empty array, under a temporary name.
func (f *traceFile) prepare() (storage, error) {
	file, err := f.open(f.temporary())
	if err != nil {
		return nil, fmt.Errorf("creating trace file: %w", err)
	}
	if _, err := file.WriteAt([]byte(opening+closing), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("creating trace file: %w", err), f.discard(file))
	}
	return file, nil
}

func (f *traceFile) discard(next storage) error {
	return errors.Join(next.Close(), os.Remove(f.temporary()))
}

// adopt goes on in next. The error is of closing the file before.
func (f *traceFile) adopt(next storage, now time.Time) error {
	err := f.close()
	f.file = next
	f.number++
	f.opened = now
	f.empty = true
	f.at = int64(len(opening))
	f.buf = f.buf[:0]
	return err
}

// size is the file's length once everything gathered is written.
func (f *traceFile) size() int64 {
	return f.at + int64(len(f.buf)) + int64(len(closing))
}

// begin returns the buffer for the caller to append one event of at most
// maxEvent bytes to, and to hand back to end with the returned mark.
func (f *traceFile) begin() (buf []byte, mark int) {
	mark = len(f.buf)
	if f.empty {
		return append(f.buf, '\n'), mark
	}
	return append(f.buf, ',', '\n'), mark
}

// end takes the event that was appended after mark.
func (f *traceFile) end(buf []byte, mark int) {
	f.empty = false
	from := f.at + int64(mark)
	to := f.at + int64(len(buf)) - 1
	if from/pageSize == to/pageSize {
		f.buf = buf
		return
	}
	// Move the event to the next page.
	pad := int(pageSize - from%pageSize)
	n := len(buf)
	for range pad {
		buf = append(buf, ' ')
	}
	copy(buf[mark+pad:], buf[mark:n])
	for i := mark; i < mark+pad; i++ {
		buf[i] = ' '
	}
	f.buf = buf
}

// flush writes what was gathered, and returns how many bytes. After an error
// everything is still there and the next flush starts at the same place.
func (f *traceFile) flush() (int, error) {
	n := len(f.buf)
	if n == 0 {
		return 0, nil
	}
	f.buf = append(f.buf, closing...)
	_, err := f.file.WriteAt(f.buf, f.at)
	f.buf = f.buf[:n]
	if err != nil {
		// The disk may be full in the middle of an event: close the array where
		// it was. This can fail too; then the file lacks its last bracket.
		err = errors.Join(fmt.Errorf("writing %s: %w", f.path, err), f.restore())
		return 0, err
	}
	f.at += int64(n)
	f.buf = f.buf[:0]
	return n, nil
}

func (f *traceFile) restore() error {
	if err := f.file.Truncate(f.at); err != nil {
		return fmt.Errorf("cutting %s back: %w", f.path, err)
	}
	if _, err := f.file.WriteAt([]byte(closing), f.at); err != nil {
		return fmt.Errorf("closing the array in %s: %w", f.path, err)
	}
	return nil
}

func (f *traceFile) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	if err != nil {
		return fmt.Errorf("closing trace file: %w", err)
	}
	return nil
}

// lost reports whether the live file is no longer where it was put, because
// somebody deleted or moved it: what is written now would be seen by nobody.
func (f *traceFile) lost() bool {
	_, err := os.Lstat(f.path)
	return errors.Is(err, os.ErrNotExist)
}

// leftover puts a file of an earlier process away, and removes one that was
// never finished. It reports whether there was a file to put away.
func leftover(path string, now time.Time) (bool, error) {
	if err := os.Remove(path + ".tmp"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("removing unfinished trace file: %w", err)
	}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for an earlier trace file: %w", err)
	}
	if info.Size() <= int64(len(opening+closing)) {
		if err = os.Remove(path); err != nil {
			return false, fmt.Errorf("removing empty trace file: %w", err)
		}
		return false, nil
	}
	target, err := backupPath(path, now)
	if err != nil {
		return false, err
	}
	if err := os.Rename(path, target); err != nil {
		return false, fmt.Errorf("putting an earlier trace file away: %w", err)
	}
	return true, nil
}

const (
	traceExt     = ".json"
	gzipExt      = ".gz"
	backupLayout = "20060102T150405.000000"
)

// backupPath is a free name for a file put away at now: <prefix>-<UTC>.json.
// Names sort by time.
func backupPath(live string, now time.Time) (string, error) {
	base := live[:len(live)-len(traceExt)]
	now = now.UTC()
	for range 1000 {
		path := base + "-" + now.Format(backupLayout) + traceExt
		taken, err := filepath.Glob(escapeGlob(path) + "*")
		if err != nil {
			return "", fmt.Errorf("choosing a name for the rotated file: %w", err)
		}
		if len(taken) == 0 {
			return path, nil
		}
		now = now.Add(time.Microsecond)
	}
	return "", fmt.Errorf("no free name near %s for a rotated file of %s", now, live)
}

// escapeGlob makes path match itself only.
func escapeGlob(path string) string {
	var out []byte
	for i := range len(path) {
		switch path[i] {
		case '*', '?', '[', '\\':
			out = append(out, '[', path[i], ']')
		default:
			out = append(out, path[i])
		}
	}
	return string(out)
}
