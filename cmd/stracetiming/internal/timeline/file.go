// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package timeline // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/timeline"

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/feed"
)

const bufferSize = 256 << 10

// file is a trace event document being written. It appears under its name
// when it is whole; a name that ends in .gz makes it compressed.
type file struct {
	*bufio.Writer
	path   string
	out    *os.File
	zip    *gzip.Writer
	behind *background
	direct bool // path is no regular file: written in place
	events int64
	meta   []byte
	// spool holds what goes behind the events, until they are all there.
	spool      *bufio.Writer
	spoolFile  *os.File
	spoolCount int64
}

// create starts a document; spooled asks for a list beside the events.
func create(path string, spooled bool) (*file, error) {
	f := &file{path: path}
	info, err := os.Stat(path)
	f.direct = err == nil && !info.Mode().IsRegular()
	if f.direct {
		f.out, err = os.OpenFile(path, os.O_WRONLY, 0)
	} else {
		f.out, err = os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	}
	if err != nil {
		return nil, fmt.Errorf("creating %s: %w", path, err)
	}
	var w io.Writer = f.out
	if strings.HasSuffix(path, ".gz") {
		f.zip = gzip.NewWriter(w)
		w = f.zip
	}
	f.behind = newBackground(w)
	f.Writer = bufio.NewWriterSize(f.behind, bufferSize)
	if spooled {
		if f.spoolFile, err = os.CreateTemp(filepath.Dir(f.out.Name()), ".stracetiming.*"); err != nil {
			return nil, errors.Join(fmt.Errorf("creating a file beside %s: %w", path, err), f.abort())
		}
		f.spool = bufio.NewWriterSize(f.spoolFile, bufferSize)
	}
	_, _ = f.WriteString(`{"displayTimeUnit":"ms","traceEvents":[`) // errors stay in the buffer until Flush
	return f, nil
}

// begin separates the event that follows from those before.
func (f *file) begin() {
	if f.events > 0 {
		_, _ = f.WriteString(",\n")
	} else {
		_ = f.WriteByte('\n')
	}
	f.events++
}

// event writes one event.
func (f *file) event(b []byte) error {
	f.begin()
	if _, err := f.Write(b); err != nil {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	return nil
}

// spoolItem adds to the list beside the events.
func (f *file) spoolItem(b []byte) error {
	if f.spoolCount > 0 {
		_, _ = f.spool.WriteString(",\n")
	}
	f.spoolCount++
	if _, err := f.spool.Write(b); err != nil {
		return fmt.Errorf("writing beside %s: %w", f.path, err)
	}
	return nil
}

// finish writes the anchors and the spooled list, under the name given, and
// puts the file in place.
func (f *file) finish(processes []*feed.Process, spoolName string) error {
	err := errors.Join(f.tail(processes, spoolName), f.stop())
	if err == nil && f.zip != nil {
		err = f.zip.Close()
	}
	if err == nil && !f.direct {
		// CreateTemp makes it private; a report is as public as any new file.
		err = f.out.Chmod(0o644)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", f.path, err), f.abort())
	}
	if err := f.out.Close(); err != nil {
		return fmt.Errorf("closing %s: %w", f.path, err)
	}
	if !f.direct {
		if err := os.Rename(f.out.Name(), f.path); err != nil {
			return fmt.Errorf("putting %s in place: %w", f.path, err)
		}
	}
	return f.dropSpool()
}

func (f *file) tail(processes []*feed.Process, spoolName string) error {
	_, _ = f.WriteString("\n]")
	f.anchors(processes)
	if f.spool != nil {
		_, _ = f.WriteString(",\n\"" + spoolName + "\":[\n")
		if err := f.spool.Flush(); err != nil {
			return err //nolint:wrapcheck // the caller names the file
		}
		if _, err := f.spoolFile.Seek(0, io.SeekStart); err != nil {
			return err //nolint:wrapcheck // the caller names the file
		}
		if _, err := f.ReadFrom(f.spoolFile); err != nil {
			return err //nolint:wrapcheck // the caller names the file
		}
		_, _ = f.WriteString("\n]")
	}
	_, _ = f.WriteString("}\n")
	return f.Flush() //nolint:wrapcheck // the caller names the file
}

func (f *file) anchors(processes []*feed.Process) {
	var b []byte
	for _, p := range processes {
		for _, a := range p.Anchors {
			if b == nil {
				b = append(b, ",\n\"clockAnchors\":["...)
			} else {
				b = append(b, ',')
			}
			b = append(b, `{"pid":`...)
			b = strconv.AppendInt(b, int64(a.PID), 10)
			b = append(b, `,"mono_ns":"`...)
			b = strconv.AppendInt(b, a.Mono, 10)
			b = append(b, `","wall_ns":"`...)
			b = strconv.AppendInt(b, a.Wall, 10)
			b = append(b, `"}`...)
		}
	}
	if b != nil {
		_, _ = f.Write(append(b, ']'))
	}
}

// stop waits until all that was flushed is written.
func (f *file) stop() error {
	b := f.behind
	f.behind = nil
	if b == nil {
		return nil
	}
	return b.Close()
}

// abort leaves nothing behind.
func (f *file) abort() error {
	_ = f.stop() // what could not be written goes away now
	err := f.out.Close()
	if !f.direct {
		err = errors.Join(err, os.Remove(f.out.Name()))
	}
	return errors.Join(err, f.dropSpool())
}

func (f *file) dropSpool() error {
	if f.spoolFile == nil {
		return nil
	}
	err := errors.Join(f.spoolFile.Close(), os.Remove(f.spoolFile.Name()))
	f.spoolFile = nil
	if err != nil {
		return fmt.Errorf("removing the file beside %s: %w", f.path, err)
	}
	return nil
}
