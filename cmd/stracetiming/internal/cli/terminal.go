// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package cli // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/cli"

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/phasecol/phasecol/cmd/stracetiming/internal/input"
)

// isTerminal tells whether w is one.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// wantsColor says whether to colour what goes to w; NO_COLOR in the
// environment and a dumb terminal mean no.
func wantsColor(setting string, w io.Writer) bool {
	switch setting {
	case "always":
		return true
	case "never":
		return false
	default:
		return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
}

const (
	// longRead is the size from which a progress bar is shown: below, the
	// reading is over before a person has seen it.
	longRead     = 64 << 20
	progressTick = 100 * time.Millisecond
)

// showProgress draws how much of the files was read until the function it
// returns is called, on a terminal and for long files only.
func showProgress(w io.Writer, groups []input.Group, taken func() int64) (stop func()) {
	size, known := input.Size(groups)
	if !isTerminal(w) || !known || size < longRead {
		return func() {}
	}
	return drawProgress(w, size, taken)
}

func drawProgress(w io.Writer, size int64, taken func() int64) (stop func()) {
	bar := progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription("reading"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetWidth(30),
		progressbar.OptionClearOnFinish(),
	)
	done := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() {
		tick := time.NewTicker(progressTick)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = bar.Set64(min(taken(), size)) // a bar that fails to draw harms nobody
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		drawing.Wait()
		_ = bar.Finish()
	}
}
