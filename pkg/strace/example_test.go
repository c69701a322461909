// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace_test

import (
	"bufio"
	"fmt"
	"strings"
	"time"

	"github.com/phasecol/phasecol/pkg/strace"
)

const log = `[mono_ns=1000][T0x7f][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=42 mono_ns=1000 wall_ns=1790000000000001000
[mono_ns=5100][T0x7f][TIMING] emit_host_span: [STRACE] v=1 pid=42 tid=42 inv=1 hid=8f3a depth=1 name=chip.run.runner_run ts=5000 dur=90 
[mono_ns=5110][T0x7f][TIMING] emit_host_span: [STRACE] v=1 pid=42 tid=42 inv=1 hid=8f3a depth=2 name=chip.run.runner_run.device_wall ts=0 dur=60 clk=dev
[mono_ns=5120][T0x7f][TIMING] emit_host_span: [STRACE] v=1 pid=42 tid=42 inv=1 hid=8f3a depth=0 name=chip.run ts=4990 dur=120 
`

// A Scanner and an Assembler turn a log into whole traces.
func Example() {
	names := strace.NewNames()
	cfg := strace.DefaultConfig()
	cfg.Host = "node-a"
	cfg.Emit = func(t *strace.Trace) {
		// What t refers to is reused: copy what is to be kept.
		texts := map[strace.SpanID]string{}
		for i := range t.Spans {
			texts[t.Spans[i].ID] = t.Spans[i].Text
		}
		for i := range t.Spans {
			s := &t.Spans[i]
			fmt.Printf("%s under %q at %s for %d ns, clock %s\n",
				s.Text, texts[s.Parent], time.Unix(0, s.Start).UTC().Format("15:04:05.000000000"), s.End-s.Start, s.Source)
		}
	}
	asm, err := strace.NewAssembler(cfg, names)
	if err != nil {
		panic(err)
	}
	scan := strace.NewScanner(names)
	now := time.Now().UnixNano()
	for lines := bufio.NewScanner(strings.NewReader(log)); lines.Scan(); {
		scope := asm.Scope("/var/log/simpler", now)
		scan.Reset(lines.Bytes(), true)
		for kind := scan.Next(); kind != strace.KindNone; kind = scan.Next() {
			switch kind {
			case strace.KindRecord:
				asm.Add(scope, &scan.Record, now)
			case strace.KindAnchor:
				asm.NoteAnchor(scope, scan.Anchor, now)
			case strace.KindReady:
				asm.NoteReady(scope, scan.Ready, now)
			case strace.KindDrops:
				asm.NoteDrops(scope, scan.Drops, now)
			case strace.KindBad:
				asm.NoteBad(scan.Outcome)
			}
		}
	}
	asm.Flush(now)
	// Output:
	// chip.run.runner_run under "chip.run" at 14:13:20.000005000 for 90 ns, clock anchor
	// chip.run.runner_run.device_wall under "chip.run.runner_run" at 14:13:20.000005000 for 60 ns, clock anchor
	// chip.run under "" at 14:13:20.000004990 for 120 ns, clock anchor
}

// Attributes are kept as written; a token without '=' belongs to the value
// before it, and values are percent-encoded.
func ExampleAttrIter() {
	for it := strace.NewAttrIter([]byte("msg=a b%5Bc%5D n=3")); ; {
		key, value, ok := it.Next()
		if !ok {
			return
		}
		fmt.Printf("%s: %s\n", key, strace.AppendDecoded(nil, value))
	}
	// Output:
	// msg: a b[c]
	// n: 3
}
