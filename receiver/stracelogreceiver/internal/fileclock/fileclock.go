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

// Of reads the clock facts of the file at path. The pairing of its last record
// with its modification time costs a look at its end, or for a compressed file
// at all of it; it is left out unless mtime is set, and where the file grew
// meanwhile. packed tells that the file is a gzip.
func Of(path string, format container.Format, mtime bool) (clock strace.FileClock, packed bool, err error) {
	f, err := os.Open(path) // #nosec G304 -- the path matched the user's own include patterns
	if err != nil {
		return clock, false, fmt.Errorf("opening the log for its clock: %w", err)
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return clock, false, fmt.Errorf("reading the log's times: %w", err)
	}
	clock = strace.FileClock{Birth: birth(path), Written: before.ModTime().UnixNano()}
	packed, err = isPacked(f)
	if err != nil || !mtime {
		return clock, packed, err
	}
	end, err := lastEnd(f, before.Size(), packed, format)
	if err != nil {
		return clock, packed, fmt.Errorf("looking for the log's last record: %w", err)
	}
	after, err := f.Stat()
	if err != nil {
		return clock, packed, fmt.Errorf("reading the log's times: %w", err)
	}
	if end > 0 && after.ModTime().Equal(before.ModTime()) && after.Size() == before.Size() {
		clock.LastEnd, clock.Mtime = end, before.ModTime().UnixNano()
	}
	return clock, packed, nil
}

func isPacked(f *os.File) (bool, error) {
	var magic [2]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("reading the log's first bytes: %w", err)
	}
	return magic == [2]byte{0x1f, 0x8b}, nil
}

// lastEnd finds the latest end on the host's monotonic clock among the records
// at the file's end; 0 when there is none.
func lastEnd(f *os.File, size int64, packed bool, format container.Format) (int64, error) {
	if packed {
		text, err := unpackedTail(f)
		return latest(text, format), err
	}
	text := make([]byte, min(size, tail))
	n, err := f.ReadAt(text, size-int64(len(text)))
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return latest(text[:n], format), nil
}

func unpackedTail(f *os.File) ([]byte, error) {
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
