// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Command genlog writes a log of the newest fixed shape for the benchmark: one
// process on hardware, two callables, sixteen records an invocation.
package main // import "github.com/phasecol/phasecol/cmd/stracetiming/bench/genlog"

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
)

// stage is one record of an invocation, in print order. Times are microseconds
// after the root's start; device times count from the device's own origin.
type stage struct {
	name       string
	depth      int
	start, dur int64
	attrs      string
}

var stages = []stage{
	{"chip.run.bind.compatibility", 1, 1, 2, ""},
	{"chip.run.bind.args", 2, 4, 30, ""},
	{"chip.run.bind.prebuilt", 2, 36, 15, ""},
	{"chip.run.bind", 1, 3, 52, ""},
	{"chip.run.runner_run", 1, 60, 36_000, ""},
	{"chip.run.validate", 1, 36_070, 8, ""},
	{"chip.run.runner_run.device_wall", 2, 0, 35_900, "clk=dev"},
	{"chip.run.runner_run.device_wall.preamble", 3, 0, 10, "clk=dev"},
	{"chip.run.runner_run.device_wall.graph_build", 3, 10, 35_800, "clk=dev"},
	{"chip.run.runner_run.device_wall.config_validate", 3, 11, 4, "clk=dev"},
	{"chip.run.runner_run.device_wall.arena_wire", 3, 15, 9, "clk=dev"},
	{"chip.run.runner_run.device_wall.sm_reset", 3, 24, 50, "clk=dev"},
	{"chip.run.runner_run.device_wall.orch", 3, 80, 30_000, "clk=dev"},
	{"chip.run.runner_run.device_wall.sched", 3, 90, 35_600, "clk=dev"},
	{"chip.run.claim_release", 1, 36_080, 2, ""},
	{"chip.run", 0, 0, 36_090, ""},
}

func main() {
	records := flag.Int("records", 1_000_000, "how many records to write")
	flag.Parse()
	if err := write(bufio.NewWriterSize(os.Stdout, 1<<20), *records); err != nil {
		fmt.Fprintln(os.Stderr, "genlog:", err)
		os.Exit(1)
	}
}

func write(w *bufio.Writer, records int) error {
	const pid, prefix = 4242, "[T0x7f7a8e2b5440][TIMING] "
	random := rand.New(rand.NewPCG(1, 2)) // the same log every time
	now := int64(680_697_077_335)
	_, _ = fmt.Fprintf(w, "[mono_ns=%d]%sclock_anchor: [CLOCK_ANCHOR] v=1 pid=%d mono_ns=%d wall_ns=1795989919796251777\n", now, prefix, pid, now)
	for n, inv := 0, 1; n < records; inv++ {
		hid := "8f3a11c07be2d945"
		if inv%50 == 1 {
			hid = "1122334455667788"
		}
		now += 1_000_000 + random.Int64N(500_000)
		for i := range stages {
			if n == records {
				break
			}
			s := &stages[i]
			ts := s.start * 1000
			if s.attrs == "" {
				ts += now
			}
			attrs := s.attrs
			if s.depth == 0 {
				attrs = fmt.Sprintf("run_id=%d dispatch_id=%d slot_id=0 generation=%d run_epoch=%d", inv, inv, inv, inv)
			}
			dur := s.dur*1000 + random.Int64N(s.dur*100+1)
			_, _ = fmt.Fprintf(w, "[mono_ns=%d]%semit_host_span: [STRACE] v=1 pid=%d tid=%d inv=%d hid=%s depth=%d name=%s ts=%d dur=%d %s\n",
				now+40_000_000+int64(i)*2000, prefix, pid, pid, inv, hid, s.depth, s.name, ts, dur, attrs)
			n++
		}
		now += 41_000_000
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}
