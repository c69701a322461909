// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

// deviceBlock is where the device spans of one invocation go on the host's
// monotonic clock. The device counts from its own origin, whose place on the
// host clock is not measured; known is only that the whole block lies inside
// runner_run, behind the AICPU's launch.
type deviceBlock struct {
	// start is the host time of device ts 0.
	start int64
	// slack is the room left behind the block, nanoseconds: it may really lie
	// up to that much later.
	slack int64
	fits  bool
}

// placeDevice puts the block at its earliest legal point. Durations are never
// changed: where they do not fit, the block is flagged.
func placeDevice(rs *records, fallback int64) deviceBlock {
	var runner *stored
	var extent int64
	launch := int64(-1)
	for i := range rs.list {
		r := &rs.list[i]
		switch {
		case r.device:
			extent = max(extent, r.end())
		case r.name.role == roleRunnerRun && !r.point():
			runner = r
		case r.name.role == roleAICPULaunch:
			launch = max(launch, r.ts)
		}
	}
	if runner == nil {
		return deviceBlock{start: fallback}
	}
	start := max(runner.ts, launch)
	slack := runner.end() - start - extent
	if slack < 0 {
		return deviceBlock{start: start}
	}
	return deviceBlock{start: start, slack: slack, fits: true}
}
