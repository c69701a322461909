// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package fileclock // import "github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/fileclock"

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phasecol/phasecol/pkg/strace"
)

// birth is when the file was made, Unix ns; 0 where the file system does not
// keep it.
func birth(path string) int64 {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BTIME, &st); err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}

// Host reads this machine's monotonic and wall clock together.
func Host() strace.HostClock {
	var before, wall, after unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil ||
		unix.ClockGettime(unix.CLOCK_REALTIME, &wall) != nil ||
		unix.ClockGettime(unix.CLOCK_MONOTONIC, &after) != nil {
		return strace.HostClock{}
	}
	mono := before.Nano() + (after.Nano()-before.Nano())/2
	return strace.HostClock{Mono: after.Nano(), Offset: wall.Nano() - mono, Valid: true}
}

// OwnTimeNamespace reports whether this process's monotonic clock is shifted
// against the host's, so that it cannot place another process's times.
func OwnTimeNamespace() bool {
	offsets, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return false // a kernel without time name spaces
	}
	for line := range bytes.Lines(offsets) {
		f := bytes.Fields(line)
		if len(f) == 3 && string(f[0]) == "monotonic" {
			return string(f[1]) != "0" || string(f[2]) != "0"
		}
	}
	return false
}
