// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package container takes the dress off container log lines: the CRI format
// that kubelet's runtimes write, and Docker's json-file. It also reads a
// container's identity out of the paths that kubelet and Docker use.
package container // import "github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"

import (
	"bytes"
	"encoding/json"
	"time"
)

// Format is how a file's lines are dressed.
type Format uint8

const (
	// Auto recognises each line by its shape.
	Auto Format = iota
	// Raw lines are the runtime's own.
	Raw
	// CRI lines are "<RFC 3339 time> stdout|stderr F|P <text>".
	CRI
	// Docker lines are JSON objects with log, stream and time.
	Docker
)

// Line is one line without its dress.
type Line struct {
	// Text aliases the line (CRI) or is a copy (Docker).
	Text []byte
	// Time is when the container runtime read the text, Unix ns; 0 if unknown.
	Time int64
	// Stream is stdout or stderr; pieces of one stream belong together.
	Stream Stream
	// Partial is true when the text goes on in the stream's next line.
	Partial bool
}

// Stream numbers the container's output streams.
type Stream uint8

// The streams.
const (
	Stdout Stream = iota
	Stderr

	// NumStreams sizes arrays indexed by Stream.
	NumStreams
)

// Container reports whether lines that begin like b are dressed.
func (f Format) Container(b []byte) bool {
	switch f {
	case CRI, Docker:
		return true
	case Auto:
		return looksDocker(b) || looksCRI(b)
	default:
		return false
	}
}

// Unwrap takes the dress off one line (without line feed). ok is false when
// the line does not have the shape that the format demands; Auto takes such a
// line as it is.
func (f Format) Unwrap(b []byte) (line Line, ok bool) {
	switch {
	case f == Raw:
		return Line{Text: b}, true
	case f != CRI && looksDocker(b):
		line, ok = unwrapDocker(b)
	case f != Docker && looksCRI(b):
		line, ok = unwrapCRI(b)
	}
	if !ok && f == Auto {
		return Line{Text: b}, true
	}
	return line, ok
}

// AnyPartial reports whether one of the lines, each with its line feed, is a
// piece that goes on.
func AnyPartial(lines []byte) bool {
	if !bytes.Contains(lines, pieceTag) && !bytes.Contains(lines, streamKey) {
		return false // most blocks, at memory speed
	}
	for len(lines) > 0 {
		end := bytes.IndexByte(lines, '\n')
		if Partial(lines[:end]) {
			return true
		}
		lines = lines[end+1:]
	}
	return false
}

// Partial reports whether a dressed line is a piece that goes on.
func Partial(b []byte) bool {
	if looksDocker(b) {
		i := bytes.Index(b, streamKey)
		return i >= 0 && !endsInLineFeed(b[:i])
	}
	_, tag, _, ok := cutCRI(b)
	return ok && tag == 'P'
}

// endsInLineFeed tells of JSON text whether it ends in an escaped line feed,
// and not in an escaped backslash and an n.
func endsInLineFeed(b []byte) bool {
	text, ok := bytes.CutSuffix(b, []byte("n"))
	slashes := len(text) - len(bytes.TrimRight(text, `\`))
	return ok && slashes%2 == 1
}

// StreamOf tells the stream of a dressed line.
func StreamOf(b []byte) Stream {
	if looksDocker(b) {
		if i := bytes.Index(b, streamKey); i >= 0 && bytes.HasPrefix(b[i+len(streamKey):], []byte("stderr")) {
			return Stderr
		}
		return Stdout
	}
	if stamp, _, _, ok := cutCRI(b); ok && isStderr(b, stamp) {
		return Stderr
	}
	return Stdout
}

// pieceTag stands in every CRI line that is a piece.
var pieceTag = []byte(" P ")

// Word is what a dressed line of the stream holds, and others may.
func Word(s Stream) []byte { return words[s] }

var words = [NumStreams][]byte{[]byte("stdout"), []byte("stderr")}

// streamKey ends a Docker line's text: a quote inside is escaped.
var streamKey = []byte(`","stream":"`)

func looksDocker(b []byte) bool {
	return len(b) > 8 && b[0] == '{' && string(b[:8]) == `{"log":"`
}

// looksCRI checks the fixed places of an RFC 3339 time.
func looksCRI(b []byte) bool {
	return len(b) > 20 && b[0] >= '1' && b[0] <= '9' && b[4] == '-' && b[7] == '-' && b[10] == 'T' && b[13] == ':' && b[16] == ':'
}

// cutCRI splits "<time> <stream> <tag> <text>".
func cutCRI(b []byte) (stamp []byte, tag byte, rest []byte, ok bool) {
	if !looksCRI(b) {
		return nil, 0, nil, false
	}
	i := bytes.IndexByte(b, ' ')
	// stdout and stderr are equally long: the tag has a fixed place.
	const streamLen = len("stdout")
	at := i + 1 + streamLen + 1
	if i < 0 || at+1 > len(b) || b[at-1] != ' ' || (b[at] != 'F' && b[at] != 'P') {
		return nil, 0, nil, false
	}
	if stream := string(b[i+1 : i+1+streamLen]); stream != "stdout" && stream != "stderr" {
		return nil, 0, nil, false
	}
	rest = b[at+1:]
	if len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	return b[:i], b[at], rest, true
}

// isStderr tells std(e)rr from std(o)ut behind the stamp.
func isStderr(b, stamp []byte) bool { return b[len(stamp)+4] == 'e' }

func unwrapCRI(b []byte) (Line, bool) {
	stamp, tag, rest, ok := cutCRI(b)
	if !ok {
		return Line{}, false
	}
	line := Line{Text: rest, Partial: tag == 'P', Time: parseTime(stamp)}
	if isStderr(b, stamp) {
		line.Stream = Stderr
	}
	return line, true
}

func parseTime(stamp []byte) int64 {
	t, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return 0
	}
	return t.UnixNano()
}

func unwrapDocker(b []byte) (Line, bool) {
	var entry struct {
		Log    string    `json:"log"`
		Stream string    `json:"stream"`
		Time   time.Time `json:"time"`
	}
	if err := json.Unmarshal(b, &entry); err != nil {
		return Line{}, false
	}
	line := Line{Text: []byte(entry.Log)}
	if entry.Stream == "stderr" {
		line.Stream = Stderr
	}
	if !entry.Time.IsZero() {
		line.Time = entry.Time.UnixNano()
	}
	if n := len(line.Text); n > 0 && line.Text[n-1] == '\n' {
		line.Text = line.Text[:n-1]
	} else {
		line.Partial = true
	}
	return line, true
}
