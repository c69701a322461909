// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import "testing"

func TestParseBindPhase(t *testing.T) {
	const prefix = "[mono_ns=2116907246593][T0x7f22dd84ab80][TIMING] host_phase_trace_end: [host_phase_trace.cpp:393] "
	for _, c := range []struct {
		line, phase, attrs string
		start, dur         int64
	}{
		{prefix + "bind phase=arena_build start_ns=2116906752737 dur_ns=46627 bytes=11515648 device=2242048", "arena_build", "bytes=11515648 device=2242048", 2116906752737, 46627},
		{prefix + "bind phase=gm_heap start_ns=10 dur_ns=471 ", "gm_heap", "", 10, 471},
		{"bind phase=args start_ns=1 dur_ns=2\r", "args", "", 1, 2},
		{prefix + "bind phase=args start_ns=1 dur_ns=2 bytes=3[mono_ns=5][T0x1][TIMING] f: x", "args", "bytes=3", 1, 2},
	} {
		p, ok := ParseBindPhase([]byte(c.line))
		if !ok || string(p.Name) != c.phase || string(p.Attrs) != c.attrs || p.Start != c.start || p.Dur != c.dur || p.End() != c.start+c.dur {
			t.Errorf("%q: got %+v, %v", c.line, p, ok)
		}
	}
}

func TestParseBindPhaseRefuses(t *testing.T) {
	for _, line := range []string{
		"", "bind phase=", "bind phase= start_ns=1 dur_ns=2", "bind phase=a start_ns=1", "bind phase=a start_ns=x dur_ns=2",
		"bind phase=a start_ns=-1 dur_ns=2", "bind phase=a start_ns=1 dur_ns=2x", "rebind phase=a start_ns=1 dur_ns=2",
		"bind phase=a start_ns=4611686018427387904 dur_ns=1", "host-orch phase=submit_task total_ns=18565 count=1",
	} {
		if p, ok := ParseBindPhase([]byte(line)); ok {
			t.Errorf("%q: got %+v", line, p)
		}
	}
}
