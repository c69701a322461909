// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "math"

// Clock translates the simulation's monotonic nanoseconds.
type Clock struct {
	mono, wall int64
	ppm        float64
	offset     int64
}

func newClock(c *Config) Clock {
	return Clock{mono: c.StartMono, wall: c.StartWall, ppm: c.SkewPPM, offset: int64(c.SkewOffset)}
}

// Wall is the true Unix time of a monotonic instant, nanoseconds.
func (c Clock) Wall(mono int64) int64 {
	d := mono - c.mono
	if c.ppm == 0 {
		return c.wall + d
	}
	return c.wall + d + int64(math.Round(float64(d)*c.ppm/1e6))
}

// AnchorWall is the wall time an anchor printed at a monotonic instant claims.
func (c Clock) AnchorWall(mono int64) int64 { return c.Wall(mono) - c.offset }

// Mono is the monotonic time of the simulation's start.
func (c Clock) Mono() int64 { return c.mono }
