// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Command phaserun is behind make run and make replay: it starts the built
// Collector with the configuration for one machine, feeds it, waits until
// everything has come out and prints what there is.
//
//	phaserun run            simulated serving process, logs and OTLP
//	phaserun replay LOG...  logs of your own, once
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "phaserun:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	p := newPlace(root)
	switch {
	case len(args) == 1 && args[0] == "run":
		return p.run(ctx, os.Getenv("KEEP") == "1")
	case len(args) > 1 && args[0] == "replay":
		return p.replay(ctx, args[1:])
	default:
		return errors.New("say what to do: phaserun run, or phaserun replay with the logs behind it")
	}
}

// repositoryRoot is the nearest folder upwards with the builder's list.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "builder-config.yaml")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("run this inside the repository: there is no builder-config.yaml here or above")
		}
		dir = parent
	}
}
