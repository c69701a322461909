// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phasecol/phasecol/cmd/stracegen/logdir"
	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
	"github.com/phasecol/phasecol/cmd/stracegen/model"
	"github.com/phasecol/phasecol/cmd/stracegen/otlp"
	"github.com/phasecol/phasecol/cmd/stracegen/truth"
)

// shutdownTimeout bounds the last sending of spans.
const shutdownTimeout = 30 * time.Second

func monotonicNow() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("reading the monotonic clock: %w", err)
	}
	return ts.Nano(), nil
}

// sinks are where events go; each may be nil.
type sinks struct {
	logs    *logdir.Writer
	stream  *bufio.Writer
	emitter *otlp.Emitter
	file    *outFile
	spans   *otlp.Collector
	truth   *model.TruthBuilder
}

// outFile is a buffered file.
type outFile struct {
	*bufio.Writer
	f *os.File
}

func createFile(path string) (*outFile, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &outFile{bufio.NewWriterSize(f, 1<<16), f}, nil
}

func (o *outFile) Close() error { return errors.Join(o.Flush(), o.f.Close()) }

func (s *settings) run(ctx context.Context) error {
	sim, err := model.New(s.model)
	if err != nil {
		return err
	}
	out := &sinks{}
	// Sending goes on for a moment after the user has stopped the generator.
	send := context.WithoutCancel(ctx)
	if err = s.open(send, sim, out); err != nil {
		return errors.Join(err, out.close(send))
	}
	stopped, err := s.play(ctx, send, sim, out)
	err = errors.Join(err, out.close(send))
	return errors.Join(err, s.report(out, stopped))
}

func (s *settings) open(ctx context.Context, sim *model.Sim, out *sinks) error {
	loc, err := time.LoadLocation(s.timeZone)
	if err != nil {
		return fmt.Errorf("--time-zone: %w", err)
	}
	f, err := logfmt.New(s.model.Generation, logfmt.Options{Bare: s.logs.Bare, Location: loc})
	if err != nil {
		return err
	}
	if !s.noLogs {
		if s.out == "-" {
			s.logs.Stream = s.stdout
			if !s.logs.ByLine {
				out.stream = bufio.NewWriterSize(s.stdout, 1<<16)
				s.logs.Stream = out.stream
			}
		} else {
			s.logs.Dir = s.out
		}
		if out.logs, err = logdir.New(f, s.logs); err != nil {
			return err
		}
	}
	if s.truth != "" {
		out.truth = model.NewTruthBuilder(sim)
	}
	return s.openSpans(ctx, sim, out)
}

func (s *settings) openSpans(ctx context.Context, sim *model.Sim, out *sinks) error {
	if s.otlp == "" && s.otlpFile == "" {
		return nil
	}
	opts := otlp.Options{
		Endpoint: s.otlp, Timeout: s.otlpTimeout, Model: s.model.Model, Pod: s.pod(),
		ServiceName: s.serviceName, ServiceVersion: s.serviceVersion, HostName: s.hostName,
	}
	var err error
	if s.otlpFile != "" {
		if out.file, err = createFile(s.otlpFile); err != nil {
			return fmt.Errorf("--otlp-file: %w", err)
		}
		out.spans = otlp.NewFileWriter(out.file)
		opts.Offline = out.spans
	}
	api, engine := sim.PIDs()
	out.emitter, err = otlp.NewEmitter(ctx, sim.Clock(), api, engine, opts)
	return err
}

// play runs the simulation until its end or until ctx is done, which it reports.
func (s *settings) play(ctx, send context.Context, sim *model.Sim, out *sinks) (stopped bool, err error) {
	began := time.Now()
	n := 0
	for e := range sim.Events() {
		if s.realtime {
			wait(ctx, began.Add(time.Duration(e.At-sim.Clock().Mono())))
		}
		n++
		if s.realtime || n&0xff == 0 {
			if ctx.Err() != nil {
				return true, nil
			}
		}
		if err := out.take(send, e); err != nil {
			return false, err
		}
	}
	return false, nil
}

// wait returns at an instant, or when ctx is done.
func wait(ctx context.Context, until time.Time) {
	d := time.Until(until)
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (o *sinks) take(ctx context.Context, e *model.Event) error {
	if o.truth != nil {
		o.truth.Add(e)
	}
	switch {
	case e.Record != nil && o.logs != nil:
		return o.logs.Write(e.Record)
	case e.Sequence != nil && o.emitter != nil:
		return o.emitter.Sequence(ctx, e.Sequence)
	case e.Request != nil && o.emitter != nil:
		return o.emitter.Request(ctx, e.Request)
	}
	return nil
}

func (o *sinks) close(ctx context.Context) error {
	var errs []error
	if o.emitter != nil {
		bounded, cancel := context.WithTimeout(ctx, shutdownTimeout)
		errs = append(errs, o.emitter.Shutdown(bounded))
		cancel()
	}
	if o.spans != nil {
		errs = append(errs, o.spans.Err())
	}
	if o.file != nil {
		errs = append(errs, o.file.Close())
	}
	if o.logs != nil {
		errs = append(errs, o.logs.Close())
	}
	if o.stream != nil {
		errs = append(errs, o.stream.Flush())
	}
	return errors.Join(errs...)
}

// report writes the truth and a summary.
func (s *settings) report(out *sinks, stopped bool) error {
	var files []truth.LogFile
	lines, noise, spans := int64(0), int64(0), int64(0)
	if out.logs != nil {
		files, lines, noise = out.logs.Files(), out.logs.Lines(), out.logs.NoiseLines()
	}
	if out.emitter != nil {
		spans = out.emitter.Spans()
	}
	if !s.quiet {
		fmt.Fprintf(s.stderr, "stracegen: %d lines in %d files, %d spans\n", lines, len(files), spans)
	}
	if out.truth == nil {
		return nil
	}
	t := out.truth.File()
	t.Interrupted, t.HostName, t.Pod, t.Files = stopped, s.hostName, s.pod(), files
	t.Totals.Lines, t.Totals.NoiseLines = lines, noise
	f, err := createFile(s.truth)
	if err != nil {
		return fmt.Errorf("--truth: %w", err)
	}
	return errors.Join(t.Write(f), f.Close())
}
