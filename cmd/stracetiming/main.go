// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Command stracetiming reads the [STRACE] markers of the host runtime out of
// logs after the fact: tables of time per callable and stage, timelines, and
// checks.
package main // import "github.com/phasecol/phasecol/cmd/stracetiming"

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
