// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package fileclock reads what the file system and this machine's clocks say
// about a log file: its birth, when it was last written to, and the pairing of
// its last record with that time.
package fileclock // import "github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/fileclock"

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cespare/xxhash/v2"

	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
)

const (
	// tail is how much of a file's end is searched for its last record.
	tail = 256 << 10
	// maxUnpacked bounds the work for a compressed file, whose end can only
	// be reached through all of it.
	maxUnpacked = 1 << 30
)

// HeadSize is how much of a file's beginning tells it from others, as
// fileconsumer does.
const HeadSize = 1000

// Look is what one look at a file told.
type Look struct {
	Clock strace.FileClock
	// Packed tells that the file is a gzip.
	Packed bool
	// Head hashes the first HeadSize bytes, unpacked; 0 where there are fewer.
	Head uint64
	// Info is the file that was looked at.
	Info os.FileInfo
}

// Of looks at the file at path. The pairing of its last record with its
// modification time costs a look at its end, or for a compressed file at all
// of it; it is left out unless mtime is set, and where the file grew meanwhile.
// With an error, Look holds what was found before it.
func Of(path string, format container.Format, mtime bool) (look Look, err error) {
	f, err := os.Open(path) // #nosec G304 -- the path matched the user's own include patterns
	if err != nil {
		return look, fmt.Errorf("opening the log for its clock: %w", err)
	}
	defer f.Close()
	if look.Info, err = f.Stat(); err != nil {
		return look, fmt.Errorf("reading the log's times: %w", err)
	}
	look.Clock = strace.FileClock{Birth: birth(path), Written: look.Info.ModTime().UnixNano()}
	if look.Packed, look.Head, err = head(f); err != nil {
		return look, fmt.Errorf("reading the log's beginning: %w", err)
	}
	if !mtime {
		return look, nil
	}
	end, err := lastEnd(f, look.Info.Size(), look.Packed, format)
	if err != nil {
		return look, fmt.Errorf("looking for the log's last record: %w", err)
	}
	after, err := f.Stat()
	if err != nil {
		return look, fmt.Errorf("reading the log's times: %w", err)
	}
	if end > 0 && after.ModTime().Equal(look.Info.ModTime()) && after.Size() == look.Info.Size() {
		look.Clock.LastEnd, look.Clock.Mtime = end, after.ModTime().UnixNano()
	}
	return look, nil
}

// head reads the file's beginning and leaves its position alone.
func head(f *os.File) (packed bool, hash uint64, err error) {
	var first [HeadSize]byte
	n, err := f.ReadAt(first[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, 0, err
	}
	if n < 2 || first[0] != 0x1f || first[1] != 0x8b {
		return false, hashHead(first[:n]), nil
	}
	z, err := gzip.NewReader(io.NewSectionReader(f, 0, 1<<62))
	if err != nil {
		return true, 0, err
	}
	n, err = io.ReadFull(z, first[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return true, 0, err
	}
	return true, hashHead(first[:n]), nil
}

func hashHead(first []byte) uint64 {
	if len(first) < HeadSize {
		return 0
	}
	return max(1, xxhash.Sum64(first))
}

// lastEnd finds the latest end on the host's monotonic clock among the records
// at the file's end; 0 when there is none.
func lastEnd(f *os.File, size int64, packed bool, format container.Format) (int64, error) {
	if packed {
		text, err := unpackedTail(io.NewSectionReader(f, 0, size))
		return latest(text, format), err
	}
	text := make([]byte, min(size, tail))
	n, err := f.ReadAt(text, size-int64(len(text)))
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return latest(text[:n], format), nil
}

func unpackedTail(f io.Reader) ([]byte, error) {
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	var window []byte
	chunk := make([]byte, tail)
	for total := 0; total < maxUnpacked; {
		n, err := io.ReadFull(z, chunk)
		total += n
		window = append(window, chunk[:n]...)
		window = window[max(0, len(window)-tail):]
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return window, nil
			}
			return nil, err
		}
	}
	return nil, errors.New("more than 1 GiB unpacked")
}

func latest(text []byte, format container.Format) int64 {
	scanner := strace.NewScanner(strace.NewNames())
	var end int64
	for line := range bytes.Lines(text) {
		bare, ok := format.Unwrap(bytes.TrimSuffix(line, []byte("\n")))
		if !ok {
			continue
		}
		scanner.Reset(bare.Text, true)
		for kind := scanner.Next(); kind != strace.KindNone; kind = scanner.Next() {
			if kind == strace.KindRecord && !scanner.Record.Device {
				end = max(end, scanner.Record.End())
			}
		}
	}
	return end
}
