// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// samplesDir holds logs of the real runtime and its logger; they are no part
// of the repository.
const samplesDir = "../../../shared/samples"

// wellFormed is a record by the grammar, found without any code of ours. A
// name may be empty; a foreign bracket may follow the last digit.
var wellFormed = regexp.MustCompile(`\[STRACE\] v=1 pid=(\d+) tid=(\d+) inv=(\d+) hid=([0-9a-f]{1,16}) depth=(\d+) name=(\S*) ts=(\d+) dur=(\d+)(?: [^\n]*?)?(?:\n|\r|\[)`)

// TestSamples reads every real log there is: each record becomes one span or
// event, with its duration to the nanosecond.
func TestSamples(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(samplesDir, "*.log*"))
	require.NoError(t, err)
	if len(paths) == 0 {
		t.Skip("no samples here")
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text := unpacked(t, path)
			r := newRig(t)
			r.cfg.Clock.TimeZone = "UTC"
			r.cfg.Clock.OnNone = "read_time" // some samples were cut out of logs with a clock
			r.cfg.Include = []string{path}
			r.start()
			r.awaitRead(int64(strings.Count(text, "[STRACE] v=")))
			r.stop()

			var want, got []int64
			events := 0
			seen := map[string]bool{}
			for _, m := range wellFormed.FindAllStringSubmatch(text, -1) {
				ts, tsErr := strconv.ParseInt(m[7], 10, 64)
				dur, durErr := strconv.ParseInt(m[8], 10, 64)
				const limit = 1 << 60
				if tsErr != nil || durErr != nil || ts+dur > limit || ts > limit || dur > limit || seen[m[0]] {
					continue
				}
				seen[m[0]] = true
				want = append(want, dur)
			}
			for _, s := range r.next.spans() {
				if _, made := s.attrs["strace.synthetic"]; !made {
					got = append(got, s.duration)
				}
				events += len(s.events)
			}
			for range events {
				got = append(got, 0)
			}
			slices.Sort(want)
			slices.Sort(got)
			assert.Len(t, got, len(want))
			assert.Equal(t, want, got)
			spanIDs, _ := ids(r.next.spans())
			assert.Len(t, r.next.spans(), spanIDs)
		})
	}
}

func unpacked(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(text))
		require.NoError(t, err)
		text, err = io.ReadAll(z)
		require.NoError(t, err)
	}
	return string(text)
}
