// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"encoding/binary"
	"hash/fnv"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// kind of a track.
type kind uint8

const (
	// kindThread is a thread of the host.
	kindThread kind = iota
	// kindDevice holds the spans of a process's device clock.
	kindDevice
	// kindLinks holds the starting points of arrows from asynchronous spans:
	// viewers tie an arrow to a slice of a thread only.
	kindLinks
	// kindAsync is a trace's asynchronous track.
	kindAsync
)

// threadKey names a track inside its process.
type threadKey struct {
	kind kind
	tid  int64 // 0 where the span has no thread id
}

// track is a row of lanes on which trees of spans are placed: a thread split
// into slots, or the asynchronous track of one trace.
type track struct {
	proc  *process
	key   threadKey
	role  string  // from the first span: what the thread does
	lanes []*lane // by slot; nil where a slot was skipped
	used  uint64  // file number
	// block is the first of the made-up thread numbers of its lanes, or 0.
	block uint32
	// Asynchronous tracks only: what makes their ids unique, and the start of
	// the outermost span known, whose process owns the track.
	id        uint64
	rootStart uint64
}

// lane is what a viewer draws as one row.
type lane struct {
	occupancy
	file uint64 // the file number that occupancy and named belong to
	tid  uint32
	id   uint64 // asynchronous lanes
	// address is ,"pid":P,"tid":T or with an id, ready to copy into an event.
	address []byte
	named   bool
}

// enter makes the lane ready for file number file: a new file is empty.
func (l *lane) enter(file uint64) {
	if l.file != file {
		l.file, l.named = file, false
		l.reset()
	}
}

func threadAddress(pid, tid uint32) []byte {
	b := append([]byte(nil), `,"pid":`...)
	b = strconv.AppendUint(b, uint64(pid), 10)
	b = append(b, `,"tid":`...)
	return strconv.AppendUint(b, uint64(tid), 10)
}

func asyncAddress(pid uint32, id uint64) []byte {
	b := threadAddress(pid, pid)
	// Local to the process: a global one is no part of any in Perfetto.
	b = append(b, `,"id2":{"local":"0x`...)
	b = strconv.AppendUint(b, id, 16)
	return append(b, '"', '}')
}

// traceNumber makes the id of an asynchronous track's first lane.
func traceNumber(trace pcommon.TraceID, generation uint64) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(trace[:])
	var g [8]byte
	binary.LittleEndian.PutUint64(g[:], generation)
	_, _ = h.Write(g[:])
	return h.Sum64()
}

// laneName is the thread_name of slot number slot (from 0) of the track.
func (t *track) laneName(slot int) string {
	var name string
	switch t.key.kind {
	case kindDevice:
		name = "device"
		if t.proc.device != "" {
			name += " " + t.proc.device
		}
	case kindLinks:
		name = "requests to host runs"
	default:
		name = t.role
		if name == "" {
			name = "thread"
		}
		if t.key.tid != 0 {
			name += " " + strconv.FormatInt(t.key.tid, 10)
		}
	}
	if slot > 0 {
		name += " slot " + strconv.Itoa(slot)
	}
	return name
}

// sortIndex orders a process's lanes: arrows' beginnings, threads, device.
func (t *track) sortIndex(slot int) int64 {
	const deviceFirst = 1 << 30
	switch t.key.kind {
	case kindDevice:
		return deviceFirst + int64(slot)
	case kindLinks:
		return int64(slot) - deviceFirst
	default:
		// Threads in the order of their numbers, a thread's slots together.
		return t.key.tid%(1<<22)*64 + min(int64(slot), 63)
	}
}
