// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/phasecol/phasecol/cmd/phaserun/internal/collector"
	"github.com/phasecol/phasecol/cmd/phaserun/internal/summary"
	"github.com/phasecol/phasecol/cmd/stracegen/truth"
)

const (
	health  = "127.0.0.1:13133"
	own     = "127.0.0.1:8888"
	scrape  = "127.0.0.1:8889"
	otlp    = "127.0.0.1:4318"
	outputs = 60 * time.Second
)

// run plays a few seconds of a simulated serving process.
func (p place) run(ctx context.Context, keep bool) error {
	if err := collector.Free(ctx, health, own, scrape, "127.0.0.1:4317", otlp, "127.0.0.1:43180"); err != nil {
		return err
	}
	if err := p.clear(); err != nil {
		return err
	}
	configs := []string{p.at("config", "local.yaml"), p.at("config", "metrics.yaml")}
	if os.Getenv("PHASECOL_BACKEND") != "" {
		configs = append(configs, p.at("config", "backend.yaml"))
	}
	if err := os.Chdir(p.root); err != nil { // the configuration's paths start there
		return fmt.Errorf("entering the repository: %w", err)
	}
	c, err := collector.Start(ctx, collector.Options{
		Binary: p.collector(), Configs: configs, LogPath: p.at("run", "phasecol.log"), Health: health, Metrics: own,
	})
	if err != nil {
		return err
	}
	return errors.Join(p.play(ctx, c, keep), c.Stop())
}

func (p place) play(ctx context.Context, c *collector.Process, keep bool) error {
	fmt.Fprintln(os.Stderr, "playing six seconds of a serving process with two NPUs (every time is a tenth of a real one's) ...")
	gen := exec.CommandContext(ctx, p.stracegen(),
		"--quiet", "--realtime", "--duration", "5s", "--rate", "12", "--ranks", "2", "--time-scale", "0.1",
		"--error-rate", "0.03", "--cancel-rate", "0.03", "--one-token-rate", "0.05",
		"--out", p.at("run", "logs"), "--otlp", "http://"+otlp, "--otlp-timeout", "5s", "--truth", p.at("run", "truth.json"))
	gen.Stderr = os.Stderr
	// A Ctrl-C ends the simulation in order: it writes what it knows.
	gen.Cancel = func() error { return gen.Process.Signal(syscall.SIGTERM) }
	if err := gen.Run(); err != nil {
		return fmt.Errorf("simulating a serving process: %w", err)
	}
	want, err := truth.Read(p.at("run", "truth.json"))
	if err != nil {
		return fmt.Errorf("reading what was simulated: %w", err)
	}
	s, err := p.await(ctx, c, want)
	if err != nil {
		return err
	}
	if err := s.Print(os.Stdout); err != nil {
		return err
	}
	p.whereToLook("http://" + scrape + "/metrics (while the collector runs)")
	if keep {
		fmt.Fprintln(os.Stderr, "\nthe collector goes on; Ctrl-C stops it")
		select {
		case <-ctx.Done():
		case <-c.Done():
			return fmt.Errorf("the collector ended by itself; %s", c.Excuse())
		}
	}
	return nil
}

// await polls the output until all that was simulated is there.
func (p place) await(ctx context.Context, c *collector.Process, want *truth.File) (*summary.Summary, error) {
	deadline := time.Now().Add(outputs)
	for {
		s, err := p.summary()
		if err != nil {
			return nil, err
		}
		if s.Requests >= len(want.Requests) && s.HostRuns >= len(want.Invocations) {
			return s, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("after %s the output has %d of %d requests and %d of %d host runs; %s",
				outputs, s.Requests, len(want.Requests), s.HostRuns, len(want.Invocations), c.Excuse())
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.Done():
			return nil, fmt.Errorf("the collector ended by itself; %s", c.Excuse())
		case <-time.After(500 * time.Millisecond):
		}
	}
}
