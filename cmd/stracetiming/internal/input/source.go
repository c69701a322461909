// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package input // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/input"

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"

	"github.com/phasecol/phasecol/pkg/strace"
)

// Source reads one file and finds what the scanner knows in it. Lines without
// a bracket are passed over at the speed of a memory search.
type Source struct {
	// Scanner holds what Next found, until the next call.
	Scanner *strace.Scanner
	// Phase is the bind phase that Next found last, when it is asked for them.
	Phase strace.BindPhase
	// Path is the file's name, or "-".
	Path string

	in     io.Reader
	close  func() error
	phases bool

	buf        []byte
	pos, end   int   // what is left of buf
	base       int64 // offset of buf[0] in the decompressed stream
	eof        bool
	err        error
	line       []byte
	lineOffset int64
	found      bool // the current line held something
	scanning   bool
	kind       strace.Kind // what Reader.step found
	// key is the log time of the item that Next found last.
	key int64
}

// KindBindPhase is what Next returns for a bind phase line, beside the
// scanner's kinds.
const KindBindPhase strace.Kind = 255

const (
	maxBuffer = 512 << 10
	minBuffer = 64 << 10
	// maxRecord is longer than any record: a bracket this near the end of a
	// full buffer may begin one.
	maxRecord = 8 << 10
)

// open opens path, "-" being stdin, and looks through gzip by its first bytes.
// read is told of every byte taken from the file itself.
func open(path string, stdin io.Reader, names *strace.Names, bufferSize int, read func(int)) (*Source, error) {
	s := &Source{Path: path, Scanner: strace.NewScanner(names), buf: make([]byte, bufferSize), close: func() error { return nil }}
	raw := stdin
	if path != Stdin {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("opening the log: %w", err)
		}
		raw, s.close = f, f.Close
	}
	var magic [2]byte
	n, err := io.ReadFull(raw, magic[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.Join(fmt.Errorf("reading %s: %w", describe(path, 0), err), s.close())
	}
	counted := &countingReader{in: raw, read: read}
	if n < len(magic) || magic != [2]byte{0x1f, 0x8b} {
		s.end = copy(s.buf, magic[:n])
		read(n)
		s.in = counted
		return s, nil
	}
	z, err := gzip.NewReader(io.MultiReader(bytes.NewReader(magic[:]), counted))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading %s: %w", describe(path, 0), err), s.close())
	}
	s.in = z
	return s, nil
}

type countingReader struct {
	in   io.Reader
	read func(int)
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.read(n)
	return n, err //nolint:wrapcheck // a reader passes its reader's error on, io.EOF among them
}

// Next finds the next item; ok is false at the end, or at an error, which Err
// returns.
func (s *Source) Next() (kind strace.Kind, ok bool) {
	for {
		if s.scanning {
			if kind := s.Scanner.Next(); kind != strace.KindNone {
				s.found = true
				s.key = s.time(kind)
				return kind, true
			}
			s.scanning = false
			if s.phases && !s.found && s.bindPhase() {
				return KindBindPhase, true
			}
		}
		if !s.nextLine() {
			return strace.KindNone, false
		}
	}
}

// time is the log time of what was found; what bears none keeps the last one.
func (s *Source) time(kind strace.Kind) int64 {
	switch kind {
	case strace.KindRecord:
		return max(s.key, RecordTime(&s.Scanner.Record))
	case strace.KindAnchor:
		return max(s.key, s.Scanner.Anchor.Mono)
	default:
		return s.key
	}
}

// RecordTime is when a record was printed as far as it tells: never before
// its end. It is 0 for a device record without a prefix.
func RecordTime(r *strace.Record) int64 {
	switch {
	case r.Mono != 0:
		return r.Mono
	case r.Device:
		return 0
	default:
		return r.End()
	}
}

func (s *Source) bindPhase() bool {
	if !bytes.Contains(s.line, []byte("bind phase=")) {
		return false
	}
	phase, ok := strace.ParseBindPhase(s.line)
	s.Phase = phase
	return ok
}

// nextLine starts the scanner on the next line that holds a bracket.
func (s *Source) nextLine() bool {
	for {
		rest := s.buf[s.pos:s.end]
		bracket := bytes.IndexByte(rest, '[')
		if bracket < 0 {
			// The line may go on in the next block, but what precedes a record
			// on its line means nothing.
			s.pos = s.end
			if !s.fill() {
				return false
			}
			continue
		}
		start := bytes.LastIndexByte(rest[:bracket], '\n') + 1
		if feed := bytes.IndexByte(rest[bracket:], '\n'); feed >= 0 {
			s.startLine(start, bracket+feed, true)
			s.pos++ // the line feed
			return true
		}
		s.pos += start
		if s.pos == 0 && s.end == len(s.buf) {
			s.startLine(0, s.cut(), true)
			return true
		}
		if s.fill() {
			continue
		}
		s.startLine(0, s.end-s.pos, false)
		return true
	}
}

// cut is where a line that fills the whole buffer is broken: at its last
// bracket when a record may begin there, else at its end. No record is longer
// than that, so none is torn.
func (s *Source) cut() int {
	from := len(s.buf) - maxRecord
	if at := bytes.LastIndexByte(s.buf[from:], '['); at >= 0 {
		return from + at
	}
	return len(s.buf)
}

// startLine takes the line at rest[from:to] of what is left.
func (s *Source) startLine(from, to int, terminated bool) {
	s.line, s.lineOffset = s.buf[s.pos+from:s.pos+to], s.base+int64(s.pos+from)
	s.pos += to
	s.Scanner.Reset(s.line, terminated)
	s.scanning, s.found = true, false
}

// fill moves what is left to the buffer's begin and reads more behind it;
// false at the end.
func (s *Source) fill() bool {
	if s.pos > 0 {
		copy(s.buf, s.buf[s.pos:s.end])
		s.base += int64(s.pos)
		s.end -= s.pos
		s.pos = 0
	}
	for !s.eof {
		n, err := s.in.Read(s.buf[s.end:])
		s.end += n
		if err != nil {
			s.eof = true
			if !errors.Is(err, io.EOF) {
				s.err = fmt.Errorf("reading %s: %w", describe(s.Path, s.base+int64(s.end)), err)
			}
		}
		if n > 0 {
			return true
		}
	}
	return false
}

// Line returns the current line and its offset in the decompressed stream.
func (s *Source) Line() (line []byte, offset int64) { return s.line, s.lineOffset }

// Err returns what ended the reading, nil at the end of the file.
func (s *Source) Err() error { return s.err }

// Close closes the file.
func (s *Source) Close() error {
	if err := s.close(); err != nil {
		return fmt.Errorf("closing %s: %w", s.Path, err)
	}
	return nil
}
