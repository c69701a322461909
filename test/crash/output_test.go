// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// ids are the identifiers of one span.
type ids struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

// output is what was exported so far. Each span is one record of the log, or
// one the receiver made.
type output struct {
	dir string
	// read is how far each file was read, by its inode: rotation renames it.
	read  map[uint64]int64
	spans map[record]map[ids]int
	// parents are the parents named, by the span that names them.
	parents    map[ids]ids
	synthetic  map[ids]int
	incomplete map[record]bool
	events     map[ids]int
	total      int
	torn       int
}

func newOutput(dir string) *output {
	return &output{
		dir: dir, read: map[uint64]int64{}, spans: map[record]map[ids]int{}, parents: map[ids]ids{},
		synthetic: map[ids]int{}, incomplete: map[record]bool{}, events: map[ids]int{},
	}
}

// update reads what was exported since the last time.
func (o *output) update(t *testing.T) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(o.dir, "spans*.jsonl"))
	require.NoError(t, err)
	for _, path := range paths {
		o.file(t, path)
	}
}

// file reads the whole lines that one file has got.
func (o *output) file(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	inode := info.Sys().(*syscall.Stat_t).Ino
	_, err = f.Seek(o.read[inode], io.SeekStart)
	require.NoError(t, err)
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		o.read[inode] += int64(len(line))
		o.line(t, line)
	}
}

// catchUp returns when about as much was exported as n records give.
func (o *output) catchUp(t *testing.T, n int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		o.update(t)
		return int64(len(o.spans)) >= n*99/100
	}, time.Minute, 50*time.Millisecond, "the collector does not catch up")
}

const begin = `{"resourceSpans"`

// line reads one batch. A kill can cut a batch that was not yet acknowledged;
// the next process then writes behind it on the same line.
func (o *output) line(t *testing.T, line []byte) {
	t.Helper()
	at := bytes.LastIndex(line, []byte(begin))
	if at != 0 {
		o.torn++
	}
	if at < 0 {
		return
	}
	var u ptrace.JSONUnmarshaler
	td, err := u.UnmarshalTraces(line[at:])
	if err != nil {
		o.torn++
		return
	}
	for _, rs := range td.ResourceSpans().All() {
		pid, _ := rs.Resource().Attributes().Get("process.pid")
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				o.span(s, int32(pid.Int()))
			}
		}
	}
}

func (o *output) span(s ptrace.Span, pid int32) {
	o.total++
	id := ids{s.TraceID(), s.SpanID()}
	if !s.ParentSpanID().IsEmpty() {
		o.parents[id] = ids{s.TraceID(), s.ParentSpanID()}
	}
	o.events[id] = s.Events().Len()
	attrs := s.Attributes()
	if _, made := attrs.Get("strace.synthetic"); made {
		o.synthetic[id]++
		return
	}
	key := record{
		pid: pid, name: s.Name(), at: int64(s.StartTimestamp()), dur: int64(s.EndTimestamp() - s.StartTimestamp()),
		inv: uint64(intOf(attrs, "strace.inv")), tid: intOf(attrs, "thread.id"),
	}
	if ts, device := attrs.Get("strace.device.ts_ns"); device {
		key.device, key.at = true, ts.Int()
	}
	if _, ok := attrs.Get("strace.incomplete"); ok {
		o.incomplete[key] = true
	}
	if o.spans[key] == nil {
		o.spans[key] = map[ids]int{}
	}
	o.spans[key][id]++
}

func intOf(attrs pcommon.Map, key string) int64 {
	v, _ := attrs.Get(key)
	return v.Int()
}

// missing counts the records without a span.
func (o *output) missing(records map[record]int) int {
	n := 0
	for key := range records {
		if len(o.spans[key]) == 0 {
			n++
		}
	}
	return n
}

// describeMissing tells the processes and times of the records without a span.
func (o *output) describeMissing(records map[record]int) string {
	first, last, n := map[int32]record{}, map[int32]record{}, map[int32]int{}
	for key := range records {
		if len(o.spans[key]) > 0 || key.device {
			continue
		}
		if n[key.pid]++; n[key.pid] == 1 || key.at < first[key.pid].at {
			first[key.pid] = key
		}
		if key.at > last[key.pid].at {
			last[key.pid] = key
		}
	}
	var text strings.Builder
	for pid := range n {
		fmt.Fprintf(&text, "\n%d of pid %d, from %+v to %+v", n[pid], pid, first[pid], last[pid])
	}
	return text.String()
}
