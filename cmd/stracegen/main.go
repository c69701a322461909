// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Command stracegen simulates a serving process: it writes the host runtime's
// log in the exact form of any generation, sends the request spans that go with
// it, and writes down the truth about both.
package main // import "github.com/phasecol/phasecol/cmd/stracegen"

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(os.Stdout, os.Stderr).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stracegen:", err)
		os.Exit(1)
	}
}
