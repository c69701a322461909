// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/phasecol/phasecol/cmd/phaserun/internal/collector"
)

// replay puts logs through the same pipeline once.
func (p place) replay(ctx context.Context, logs []string) error {
	include, err := patterns(logs)
	if err != nil {
		return err
	}
	if cleared := p.clear(); cleared != nil {
		return cleared
	}
	health, err := collector.FreePort(ctx)
	if err != nil {
		return err
	}
	own, err := collector.FreePort(ctx)
	if err != nil {
		return err
	}
	_, ownPort, err := net.SplitHostPort(own)
	if err != nil {
		return fmt.Errorf("reading a free port: %w", err)
	}
	if err = os.Chdir(p.root); err != nil { // the configuration's paths start there
		return fmt.Errorf("entering the repository: %w", err)
	}
	c, err := collector.Start(ctx, collector.Options{
		Binary:  p.collector(),
		Configs: []string{p.at("config", "local.yaml"), p.at("config", "replay.yaml")},
		Env:     []string{"PHASECOL_REPLAY=" + include, "PHASECOL_HEALTH=" + health, "PHASECOL_METRICS_PORT=" + ownPort},
		LogPath: p.at("run", "phasecol.log"), Health: health, Metrics: own,
	})
	if err != nil {
		return err
	}
	// Without storage, a stop sends on all that is still waiting for more.
	records, waitErr := awaitRead(ctx, c)
	if ended := errors.Join(waitErr, c.Stop()); ended != nil {
		return ended
	}
	if records == 0 {
		return fmt.Errorf("no [STRACE] marker was found in %v", logs)
	}
	s, err := p.summary()
	if err != nil {
		return err
	}
	if s.Spans == 0 {
		return fmt.Errorf("%.0f markers were found, but no span could be placed; see %s", records, p.at("run", "phasecol.log"))
	}
	if err := s.Print(os.Stdout); err != nil {
		return err
	}
	p.whereToLook("")
	return nil
}

// patterns turns paths into the YAML list of the receiver's include setting.
func patterns(logs []string) (string, error) {
	var include []string
	for _, log := range logs {
		path, err := filepath.Abs(log)
		if err != nil {
			return "", fmt.Errorf("finding %s: %w", log, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("reading the log: %w", err)
		}
		if info.IsDir() {
			include = append(include, filepath.Join(path, "**", "*"))
			continue
		}
		f, err := os.Open(path) // #nosec G304 -- the user's own log
		if err != nil {
			return "", fmt.Errorf("reading the log: %w", err)
		}
		if err := f.Close(); err != nil {
			return "", fmt.Errorf("reading the log: %w", err)
		}
		if info.Size() == 0 {
			return "", fmt.Errorf("%s is empty", log)
		}
		include = append(include, path)
	}
	list, err := json.Marshal(include) // JSON is YAML
	if err != nil {
		return "", fmt.Errorf("listing the logs: %w", err)
	}
	return string(list), nil
}

// awaitRead waits until the Collector has read everything: nothing is being
// read and no more records come, in three looks in a row.
func awaitRead(ctx context.Context, c *collector.Process) (records float64, err error) {
	const calm = 3
	for same := 0; same < calm; {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-c.Done():
			return 0, fmt.Errorf("the collector ended by itself; %s", c.Excuse())
		case <-time.After(400 * time.Millisecond):
		}
		m, err := c.Metrics(ctx)
		if err != nil {
			return 0, err
		}
		now := m["otelcol_receiver_stracelog_records"]
		if now == records && m["otelcol_fileconsumer_reading_files"] == 0 {
			same++
			continue
		}
		same, records = 0, now
	}
	return records, nil
}
