// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver // import "github.com/phasecol/phasecol/receiver/stracelogreceiver"

import (
	"bytes"

	"github.com/phasecol/phasecol/internal/stracepdata/marker"
	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
)

// logTimes reads the time in the log at which a block of lines begins.
type logTimes struct{ scanner *strace.Scanner }

func newLogTimes() logTimes { return logTimes{strace.NewScanner(strace.NewNames())} }

// linesForTime is in how many lines with markers a time is looked for.
const linesForTime = 32

// of returns the time of printing, or else the end, of the block's first
// record on the host's clock, nanoseconds; 0 where there is none.
func (t logTimes) of(format container.Format, block []byte) int64 {
	looked := 0
	for line := range bytes.Lines(block) {
		if marker.First(line) < 0 {
			continue
		}
		if looked++; looked > linesForTime {
			break
		}
		if at := t.line(format, bytes.TrimSuffix(line, []byte("\n"))); at > 0 {
			return at
		}
	}
	return 0
}

func (t logTimes) line(format container.Format, line []byte) int64 {
	bare, ok := format.Unwrap(line)
	if !ok {
		return 0
	}
	t.scanner.Reset(bare.Text, true)
	for {
		switch t.scanner.Next() {
		case strace.KindNone:
			return 0
		case strace.KindRecord:
			if r := &t.scanner.Record; r.Mono > 0 {
				return r.Mono
			} else if !r.Device {
				return r.End()
			}
		case strace.KindAnchor:
			return t.scanner.Anchor.Mono
		}
	}
}
