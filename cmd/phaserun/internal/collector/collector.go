// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package collector starts the built Collector as a child process, waits until
// it is ready and stops it cleanly.
package collector // import "github.com/phasecol/phasecol/cmd/phaserun/internal/collector"

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Options say how to start it.
type Options struct {
	// Binary is the Collector, Configs its --config values in order.
	Binary  string
	Configs []string
	// Env is added to this process's environment.
	Env []string
	// LogPath gets its output.
	LogPath string
	// Health is host:port of the health_check extension, Metrics of its own
	// Prometheus endpoint.
	Health, Metrics string
}

// Process is a running Collector.
type Process struct {
	opts Options
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
	err  error
}

const (
	startWithin = 30 * time.Second
	stopWithin  = 15 * time.Second
)

// Start runs the Collector and returns once its health check says ready.
func Start(ctx context.Context, opts Options) (*Process, error) {
	log, err := os.Create(opts.LogPath)
	if err != nil {
		return nil, fmt.Errorf("creating the collector's log: %w", err)
	}
	var args []string
	for _, c := range opts.Configs {
		args = append(args, "--config", c)
	}
	// Not CommandContext: the end is a SIGTERM, so that nothing is left unflushed.
	cmd := exec.Command(opts.Binary, args...) //nolint:noctx // the binary this repository builds
	cmd.Env = append(os.Environ(), opts.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	// A Ctrl-C goes to the whole foreground group; the Collector must outlive
	// it until this process stops it in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", opts.Binary, err), log.Close())
	}
	p := &Process{opts: opts, cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := p.waitReady(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func (p *Process) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		if body, err := get(ctx, "http://"+p.opts.Health+"/"); err == nil && len(body) > 0 {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("the collector ended at start; %s", p.Excuse())
		case <-ctx.Done():
			return fmt.Errorf("the collector is not ready after %s; its log is %s", startWithin, p.opts.LogPath)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Excuse returns the end of the Collector's log, for an error message.
func (p *Process) Excuse() string {
	text, err := os.ReadFile(p.opts.LogPath)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Sprintf("its log %s ends:\n%s", p.opts.LogPath, strings.Join(lines[max(0, len(lines)-8):], "\n"))
}

// Done is closed when the Collector has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop ends the Collector by SIGTERM and waits for it.
func (p *Process) Stop() error {
	select {
	case <-p.done:
	default:
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stopping the collector: %w", err)
		}
	}
	select {
	case <-p.done:
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("the collector did not stop within %s and was killed", stopWithin)
	}
	return errors.Join(p.err, p.log.Close())
}

// Metrics sums the samples of the Collector's own metrics by family name.
func (p *Process) Metrics(ctx context.Context) (map[string]float64, error) {
	body, err := get(ctx, "http://"+p.opts.Metrics+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("reading the collector's metrics: %w", err)
	}
	sums := map[string]float64{}
	for line := range bytes.Lines(body) {
		name, value, ok := sample(string(bytes.TrimSpace(line)))
		if ok {
			sums[name] += value
		}
	}
	return sums, nil
}

// sample reads one line of the Prometheus text format.
func sample(line string) (name string, value float64, ok bool) {
	if line == "" || line[0] == '#' {
		return "", 0, false
	}
	name = line[:strings.IndexAny(line+" ", "{ ")]
	last := strings.LastIndexByte(line, ' ')
	if last < 0 {
		return "", 0, false
	}
	value, err := strconv.ParseFloat(line[last+1:], 64)
	return name, value, err == nil
}

func get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return body, nil
}

// Free reports the first of the addresses that something listens on already.
func Free(ctx context.Context, addresses ...string) error {
	for _, a := range addresses {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a)
		if err != nil {
			return fmt.Errorf("%s is taken, by another collector perhaps: %w", a, err)
		}
		if err := l.Close(); err != nil {
			return fmt.Errorf("probing %s: %w", a, err)
		}
	}
	return nil
}

// FreePort returns a loopback address that is free now.
func FreePort(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
