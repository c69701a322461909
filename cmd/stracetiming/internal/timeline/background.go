// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package timeline // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/timeline"

import (
	"io"
	"sync/atomic"
)

// background writes to another writer in a goroutine of its own, so that
// compression and the system's writes do not hold up the encoding. What is in
// flight is bounded: Write waits when it is ahead by too much.
type background struct {
	full, empty chan []byte
	done        chan struct{}
	// failed holds the first error; what is written after it is dropped.
	failed atomic.Pointer[error]
}

// inFlight bounds the buffers on their way.
const inFlight = 4

// newBackground starts the goroutine; Close ends it.
func newBackground(w io.Writer) *background {
	b := &background{full: make(chan []byte, inFlight), empty: make(chan []byte, inFlight), done: make(chan struct{})}
	for range inFlight {
		b.empty <- nil
	}
	go func() {
		defer close(b.done)
		for buf := range b.full {
			if b.failed.Load() == nil {
				if _, err := w.Write(buf); err != nil {
					b.failed.Store(&err)
				}
			}
			b.empty <- buf
		}
	}()
	return b
}

// Write takes a copy of p. The error may be that of an earlier call.
func (b *background) Write(p []byte) (int, error) {
	if err := b.failed.Load(); err != nil {
		return 0, *err
	}
	buf := <-b.empty
	b.full <- append(buf[:0], p...)
	return len(p), nil
}

// Close waits until all is written and returns the first error.
func (b *background) Close() error {
	close(b.full)
	<-b.done
	if err := b.failed.Load(); err != nil {
		return *err
	}
	return nil
}
