// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package cli // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/cli"

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/dump"
	"github.com/phasecol/phasecol/cmd/stracetiming/internal/feed"
	"github.com/phasecol/phasecol/cmd/stracetiming/internal/input"
	"github.com/phasecol/phasecol/cmd/stracetiming/internal/report"
	"github.com/phasecol/phasecol/cmd/stracetiming/internal/timeline"
	"github.com/phasecol/phasecol/pkg/strace"
)

// runner carries out one command line.
type runner struct {
	opt            *options
	stdin          io.Reader
	stdout, stderr io.Writer
}

// view is a table: it collects, then writes.
type view struct {
	feed.Consumer
	write    func(report.Options) error
	warnings func() []string
}

func (r *runner) run(ctx context.Context, args []string) error {
	switch {
	case r.opt.compare:
		return r.compare(ctx, args)
	case r.opt.dump:
		return r.dump(ctx, args)
	default:
		return r.tables(ctx, args)
	}
}

func (r *runner) reportOptions() report.Options {
	return report.Options{
		Format: report.Format(r.opt.format), Top: r.opt.top, Percentiles: r.opt.percentiles,
		Color: r.opt.format == string(report.Table) && wantsColor(r.opt.color, r.stdout),
	}
}

func noWarnings() []string { return nil }

// table picks the view that the flags ask for.
func (r *runner) table() view {
	switch {
	case r.opt.overlap:
		o := report.NewOverlap(r.opt.hidden)
		return view{o, func(opt report.Options) error {
			ok := o.Finish()
			if err := o.Write(r.stdout, r.stderr, opt); err != nil {
				return err
			}
			if !ok {
				return errAssertion
			}
			return nil
		}, noWarnings}
	case r.opt.rounds:
		t := report.NewRounds()
		return view{t, func(opt report.Options) error { return t.Write(r.stdout, opt) }, t.Warnings}
	case r.opt.byRank:
		t := report.NewByRank()
		return view{t, func(opt report.Options) error { return t.Write(r.stdout, opt) }, t.Warnings}
	case r.opt.tree:
		t := report.NewCallables(true)
		return view{t, func(opt report.Options) error { return t.Tree(r.stdout, opt) }, t.Warnings}
	default:
		t := report.NewCallables(r.opt.format != string(report.Table) || len(r.opt.percentiles) > 0)
		return view{t, func(opt report.Options) error { return t.TPOT(r.stdout, opt) }, t.Warnings}
	}
}

// tables reads the logs once for the table and the timelines.
func (r *runner) tables(ctx context.Context, args []string) (err error) {
	v := r.table()
	consumers := []feed.Consumer{v.Consumer}
	files, err := r.timelines()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.abort()) }()
	consumers = append(consumers, files.consumers()...)
	sum, readErr, err := r.read(ctx, args, consumers...)
	if err != nil {
		return err
	}
	opt := r.reportOptions()
	opt.Warnings = append(append(sum.Warnings(), v.warnings()...), files.warnings()...)
	r.warn(opt.Warnings)
	verdict := v.write(opt)
	if verdict != nil && !errors.Is(verdict, errAssertion) {
		return verdict
	}
	if err := files.finish(r.notes(), sum); err != nil {
		return err
	}
	return errors.Join(readErr, verdict)
}

// notes is where to say that a file was written: not among what scripts read.
func (r *runner) notes() io.Writer {
	if r.opt.format != string(report.Table) {
		return r.stderr
	}
	return r.stdout
}

// read feeds the logs to consumers. readErr is what went wrong with single
// files: what could be read of the others, and of theirs, was.
func (r *runner) read(ctx context.Context, args []string, consumers ...feed.Consumer) (sum *feed.Summary, readErr, err error) {
	groups, err := input.Expand(args)
	if err != nil {
		return nil, nil, err
	}
	in := input.NewReader(groups, strace.NewNames(), r.stdin)
	stop := showProgress(r.stderr, groups, in.Taken)
	set := feed.Settings{TimeZone: r.opt.zone, Stitch: r.opt.byRank}
	sum, err = feed.Run(ctx, groups, in, set, consumers...)
	stop()
	if err != nil {
		return nil, nil, errors.Join(err, in.Close())
	}
	return sum, in.Err(), nil
}

func (r *runner) warn(warnings []string) {
	head := "warning:"
	if wantsColor(r.opt.color, r.stderr) {
		head = "\x1b[33mwarning:\x1b[0m"
	}
	for _, w := range warnings {
		_, _ = fmt.Fprintf(r.stderr, "%s %s\n", head, w) // the report matters more
	}
}

func (r *runner) compare(ctx context.Context, args []string) error {
	var sides [2]*report.Callables
	var warnings []string
	var readErrs error
	for i := range sides {
		sides[i] = report.NewCallables(true)
		sum, readErr, err := r.read(ctx, args[i:i+1], sides[i])
		if err != nil {
			return err
		}
		readErrs = errors.Join(readErrs, readErr)
		for _, w := range append(sum.Warnings(), sides[i].Warnings()...) {
			warnings = append(warnings, args[i]+": "+w)
		}
	}
	r.warn(warnings)
	opt := r.reportOptions()
	opt.Warnings = warnings
	return errors.Join(readErrs, report.WriteChanges(r.stdout, report.Compare(sides[0], sides[1]), opt))
}

func (r *runner) dump(ctx context.Context, args []string) error {
	groups, err := input.Expand(args)
	if err != nil {
		return err
	}
	in := input.NewReader(groups, strace.NewNames(), r.stdin)
	if err := dump.Write(ctx, r.stdout, groups, in); err != nil {
		return errors.Join(err, in.Close())
	}
	return in.Err()
}

// timelines are the files being written, either may be nil.
type timelines struct {
	trace    *timeline.TraceOut
	swimlane *timeline.Swimlane
	opt      *options
}

func (r *runner) timelines() (*timelines, error) {
	t := &timelines{opt: r.opt}
	if r.opt.swimlane != "" {
		phases := timeline.NewPhases()
		for _, path := range r.opt.hostPhaseRecords {
			if err := phases.Load(path); err != nil {
				return nil, err
			}
		}
		s, err := timeline.NewSwimlane(r.opt.swimlane, phases)
		if err != nil {
			return nil, err
		}
		t.swimlane = s
	}
	if r.opt.traceOut != "" {
		o, err := timeline.NewTraceOut(r.opt.traceOut)
		if err != nil {
			return nil, errors.Join(err, t.abort())
		}
		t.trace = o
	}
	return t, nil
}

func (t *timelines) consumers() []feed.Consumer {
	var list []feed.Consumer
	if t.trace != nil {
		list = append(list, t.trace)
	}
	if t.swimlane != nil {
		list = append(list, t.swimlane)
	}
	return list
}

func (t *timelines) warnings() []string {
	if t.swimlane == nil {
		return nil
	}
	return t.swimlane.Warnings()
}

// finish puts the files in place and says so.
func (t *timelines) finish(notes io.Writer, sum *feed.Summary) error {
	if o := t.trace; o != nil {
		t.trace = nil
		if err := o.Finish(sum); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(notes, "Wrote Chrome trace: %s (%d spans)\n", t.opt.traceOut, o.Spans)
	}
	if s := t.swimlane; s != nil {
		t.swimlane = nil
		if err := s.Finish(sum); err != nil {
			return err
		}
		extra := ""
		if s.BindPhases > 0 {
			extra += fmt.Sprintf(", %d bind phases", s.BindPhases)
		}
		if s.PhaseRecords > 0 {
			extra += fmt.Sprintf(", %d host phase records", s.PhaseRecords)
		}
		_, _ = fmt.Fprintf(notes, "Wrote host swimlane: %s (%d host spans, %d device spans placed%s)\n", t.opt.swimlane, s.HostSpans, s.DeviceSpans, extra)
	}
	return nil
}

// abort leaves no half-written file behind.
func (t *timelines) abort() error {
	var errs []error
	if t.trace != nil {
		errs = append(errs, t.trace.Abort())
	}
	if t.swimlane != nil {
		errs = append(errs, t.swimlane.Abort())
	}
	return errors.Join(errs...)
}
