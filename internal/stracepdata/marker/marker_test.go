// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package marker

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFirst(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       int
	}{
		{"empty", "", -1},
		{"no bracket", "nothing to see here", -1},
		{"record", "x [STRACE] v=1", 2},
		{"anchor", "[CLOCK_ANCHOR] v=1", 0},
		{"drops", "[mono_ns=1][ERROR] f: [HOSTLOG_DROPS] v=1", 22},
		{"ready", "[chip_process pid=7 dev=1] ready", 0},
		{"other brackets first", "[INFO][S][C][H][c] [STRACE] v=1", 19},
		{"lower case is none", "[strace] v=1 [clock_anchor]", -1},
		{"cut at the end", "text [STRACE", -1},
		{"a mention counts", "logging of [STRACE] markers is on", 11},
		{"only brackets", strings.Repeat("[", 100), -1},
		{"brackets then a record", strings.Repeat("[", 100) + "STRACE] v=1", 99},
		{"NUL before", "\x00\x00[STRACE] v=1", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, First([]byte(tt.text)))
		})
	}
}

func TestCutLong(t *testing.T) {
	junk := strings.Repeat("x", 70_000)
	record := "[mono_ns=12][T0x1][TIMING] emit_host_span: [STRACE] v=1 pid=1"
	legacy := "[2026-01-01 00:00:00.000000][T0x1][INFO_V9] ~StraceScope: [strace.h:129] [STRACE] v=1 pid=1"
	for _, tt := range []struct {
		name, text string
		want       int
	}{
		{"no marker keeps what may be a prefix", junk, 70_000 - 256},
		{"short without marker still moves", "abc", 1},
		{"up to the prefix of the last marker", junk + record, 70_000},
		{"its first marker goes with the rest", record + junk + record, len(record) + 70_000},
		{"wall prefix", junk + legacy, 70_000},
		{"a marker without prefix", junk + "[STRACE] v=1", 70_000},
		{"begins with the only marker", "[STRACE] v=1 " + junk, 70_013 - 256},
		{"begins with the prefix of the only marker", record + junk, len(record) + 70_000 - 256},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, CutLong([]byte(tt.text)))
		})
	}
}
