// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of stracetiming.
package cli // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/cli"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/report"
)

// The exit codes.
const (
	exitOK = 0
	// exitError: the command line, an input or an output is at fault.
	exitError = 1
	// exitAssertion: --assert-native-overlap found the log to break it.
	exitAssertion = 2
)

// errAssertion ends with exitAssertion; what is wrong was printed.
var errAssertion = errors.New("native overlap assertion failed")

// options are the flags.
type options struct {
	traceOut, swimlane   string
	hostPhaseRecords     []string
	rounds, tree, byRank bool
	overlap, hidden      bool
	compare, dump        bool
	format               string
	top                  int
	percentiles          []float64
	timezone             string
	color                string

	zone *time.Location
}

// Main runs the command with args and returns its exit code.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := command(stdin, stdout, stderr)
	c.SetArgs(args)
	err := c.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errAssertion):
		return exitAssertion
	default:
		_, _ = fmt.Fprintf(stderr, "stracetiming: %v\n", err) // nobody is left to tell
		return exitError
	}
}

const long = `stracetiming reads the [STRACE] markers that the NPU host runtime writes to its
logs, every generation of them, and prints where the time went.

LOG is a file, plain or gzip, "-" for standard input, or a directory, which
stands for the host.*.log files in it. Several are read as one; the files
host.<pid>.log of one directory are read side by side, in the order of time.

Without a mode, it prints the mean time of every stage of every callable. All
modes use bounded memory whatever the size of the log.

Exit codes: 0, done; 1, the command line or a file is at fault; 2, what
--assert-native-overlap asserts does not hold.`

const example = `  # where the time goes, by callable and stage
  stracetiming server.log

  # the same as a tree of medians, with the slowest percent
  stracetiming --tree --percentiles 99 server.log

  # every invocation of the busiest callable; only the ten slowest
  stracetiming --rounds-table run/
  stracetiming --rounds-table --top 10 run/

  # which rank holds up the others
  stracetiming --by-rank run/

  # did the change help? median by median, with the bound of chance
  stracetiming --compare before.log after.log

  # timelines for Perfetto, with the parts of each bind
  stracetiming --trace-out trace.json.gz --swimlane lanes.json.gz \
    --host-phase-records host_phase_records.jsonl run/

  # records whose name ends in .bind and which took over a millisecond
  stracetiming --dump server.log | jq 'select(.stage=="run.bind" and .dur>1000000)'

  # for a script
  kubectl logs pod | stracetiming --format json -`

func command(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	opt := &options{}
	c := &cobra.Command{
		Use:           "stracetiming [flags] LOG...",
		Short:         "Tables and timelines from the host runtime's [STRACE] markers",
		Long:          long,
		Example:       example,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			return opt.check(args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			r := &runner{opt: opt, stdin: stdin, stdout: stdout, stderr: stderr}
			return r.run(c.Context(), args)
		},
	}
	c.SetIn(stdin)
	c.SetOut(stdout)
	c.SetErr(stderr)
	f := c.Flags()
	f.SortFlags = false
	f.BoolVar(&opt.tree, "tree", false, "print each callable's stages as a tree of medians")
	f.BoolVar(&opt.rounds, "rounds-table", false, "print every invocation of the busiest callable: host, device, effective, orch, sched")
	f.BoolVar(&opt.byRank, "by-rank", false, "compare the ranks of a job: who ends each step last")
	f.BoolVar(&opt.compare, "compare", false, "compare two logs, A and B: change of each stage's median, and what chance alone explains")
	f.BoolVar(&opt.overlap, "assert-native-overlap", false, "exit with 2 unless each run's bind overlaps the runner_run before it and runs keep their order")
	f.BoolVar(&opt.hidden, "require-hidden-prepare", false, "with --assert-native-overlap: each bind must also end within the runner_run before it")
	f.BoolVar(&opt.dump, "dump", false, "print every record as parsed, one JSON object a line")
	f.StringVar(&opt.traceOut, "trace-out", "", "write a Chrome trace to `FILE`, a process per invocation (.gz compresses)")
	f.StringVar(&opt.swimlane, "swimlane", "", "write a Chrome trace to `FILE`, with the real processes and threads (.gz compresses)")
	f.StringArrayVar(&opt.hostPhaseRecords, "host-phase-records", nil, "`PATH` of host_phase_records.jsonl, or of a log with bind phase lines, of the same run, for --swimlane; repeatable")
	f.StringVar(&opt.format, "format", string(report.Table), "table, json or csv")
	f.IntVar(&opt.top, "top", 0, "list only the `N` busiest callables, slowest rounds or steps, or largest changes")
	f.Float64SliceVar(&opt.percentiles, "percentiles", nil, "add these percentiles, such as 50,90,99.9 (json and csv: 90,99 unless given)")
	f.StringVar(&opt.timezone, "timezone", "", "time zone of the wall times that old generations print: Local, UTC or a name such as Asia/Shanghai")
	f.StringVar(&opt.color, "color", "auto", "auto, always or never; auto is for terminals")
	c.MarkFlagsMutuallyExclusive("tree", "rounds-table", "by-rank", "compare", "assert-native-overlap", "dump")
	for _, mode := range []string{"compare", "dump"} {
		c.MarkFlagsMutuallyExclusive(mode, "trace-out")
		c.MarkFlagsMutuallyExclusive(mode, "swimlane")
	}
	complete(c, "format", "table", "json", "csv")
	complete(c, "color", "auto", "always", "never")
	complete(c, "timezone", "Local", "UTC")
	return c
}

// complete offers a flag's values to the shell.
func complete(c *cobra.Command, flag string, values ...string) {
	// It fails only for a flag that does not exist.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// check refuses what does not go together, with the fix.
func (o *options) check(args []string) error {
	switch {
	case o.compare && len(args) != 2:
		return fmt.Errorf("--compare takes two logs, before and after: %d given", len(args))
	case len(args) == 0:
		return errors.New("which log? Give a file, a directory, or - for standard input (--help has examples)")
	case o.hidden && !o.overlap:
		return errors.New("--require-hidden-prepare goes with --assert-native-overlap")
	case len(o.hostPhaseRecords) > 0 && o.swimlane == "":
		return errors.New("--host-phase-records goes with --swimlane, which draws them")
	case !slices.Contains([]string{"table", "json", "csv"}, o.format):
		return fmt.Errorf("--format is table, json or csv, not %q", o.format)
	case !slices.Contains([]string{"auto", "always", "never"}, o.color):
		return fmt.Errorf("--color is auto, always or never, not %q", o.color)
	case o.top < 0:
		return fmt.Errorf("--top is a number of lines, 0 for all, not %d", o.top)
	}
	for _, p := range o.percentiles {
		if !(p > 0 && p < 100) {
			return fmt.Errorf("--percentiles lie between 0 and 100, not %v", p)
		}
	}
	if o.timezone == "" {
		return nil
	}
	zone, err := time.LoadLocation(o.timezone)
	if err != nil {
		return fmt.Errorf("--timezone: %w", err)
	}
	o.zone = zone
	return nil
}
