// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import "time"

// parseWall reads the prefix "2006-01-02 15:04:05.000000" of generations 1 to
// 5 in zone, as Unix nanoseconds. A time that the zone skips or repeats
// resolves as package time has it.
func parseWall(text []byte, zone *time.Location) (int64, bool) {
	var f [7]int
	for i, field := range [...]struct{ from, to int }{{0, 4}, {5, 7}, {8, 10}, {11, 13}, {14, 16}, {17, 19}, {20, 26}} {
		v, n, ok := parseUint(text[field.from:field.to])
		if !ok || n != field.to-field.from {
			return 0, false
		}
		f[i] = int(v)
	}
	if f[1] < 1 || f[1] > 12 || f[2] < 1 || f[2] > 31 || f[3] > 23 || f[4] > 59 || f[5] > 60 || f[0] < 1970 || f[0] > 2200 {
		return 0, false
	}
	return time.Date(f[0], time.Month(f[1]), f[2], f[3], f[4], f[5], f[6]*1000, zone).UnixNano(), true
}
