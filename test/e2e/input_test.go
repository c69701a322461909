// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

// invocation prints a small invocation with its own number at ts.
func invocation(inv, ts int) string {
	var b strings.Builder
	for _, r := range []struct {
		depth, ts, dur int
		name           string
	}{{1, ts + 10, 100, "chip.run.bind"}, {1, ts + 200, 700, "chip.run.runner_run"}, {0, ts, 1000, "chip.run"}} {
		fmt.Fprintf(&b, "[mono_ns=%d][T0x1][TIMING] emit_host_span: [STRACE] v=1 pid=7 tid=7 inv=%d hid=ab depth=%d name=%s ts=%d dur=%d \n",
			r.ts+r.dur+1, inv, r.depth, r.name, r.ts, r.dur)
	}
	return b.String()
}

const anchor = "[mono_ns=5][T0x1][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=7 mono_ns=5 wall_ns=1790000000000000005\n"

// TestBadInput feeds the Collector what logs hold when things go wrong, and
// asks for every good span, no other, and a count for each marker passed over.
func TestBadInput(t *testing.T) {
	cut := invocation(99, 1_000_000)
	cut = cut[:strings.IndexByte(cut, '\n')]
	var torn strings.Builder
	marker := strings.Index(cut, "[STRACE] v=1 ")
	for i := marker + len("[STRACE] v=1"); i < strings.Index(cut, " dur=")+len(" dur="); i++ {
		torn.WriteString(cut[:i] + "\n")
	}
	tornMarkers := strings.Count(torn.String(), "\n")

	var log bytes.Buffer
	log.WriteString(anchor)
	log.WriteString(invocation(1, 10_000))
	log.Write(make([]byte, 100_000))
	log.WriteString("\n" + invocation(2, 20_000))
	log.Write(bytes.Repeat([]byte("x"), 5<<20))
	log.WriteString("\n" + invocation(3, 30_000))
	log.WriteString(torn.String())
	log.WriteString("[STRACE] v=2 pid=7 tid=7 inv=4 hid=ab depth=0 name=chip.run ts=1 dur=2 \n")
	log.WriteString("[STRACE] v=1 pid=7 tid=7 inv=4 hid=ab depth=-1 name=chip.run ts=1 dur=2 \n")
	log.WriteString("[STRACE] v=1 pid=7 tid=7 inv=4 hid=ab depth=0 name=chip.run ts=9223372036854775807 dur=2 \n")
	log.WriteString("a line that mentions [STRACE] and means nothing\n")
	log.WriteString(invocation(5, 50_000))

	c := harness.New(t, []string{"local.yaml"})
	require.NoError(t, os.MkdirAll(filepath.Join(c.Dir, "run", "logs"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, "run", "logs", "host.7.log"), log.Bytes(), 0o600))
	junk := make([]byte, 3<<20)
	for i := range junk {
		junk[i] = byte(i * 7919 >> 3)
	}
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, "run", "logs", "junk.log"), junk, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, "run", "logs", "empty.log"), nil, 0o600))
	c.Start()
	require.Eventually(t, func() bool { return len(c.Spans()) >= 12 }, 20*time.Second, 50*time.Millisecond)
	m := c.OwnMetrics()
	assert.InDelta(t, 12, outcome(m, "span"), 0)
	assert.InDelta(t, tornMarkers, outcome(m, "torn"), 0)
	assert.InDelta(t, 1, outcome(m, "unknown_version"), 0)
	assert.InDelta(t, 2, outcome(m, "malformed"), 0)
	c.Stop()
	spans := c.Spans()
	assert.Len(t, spans, 12)
	for _, s := range spans {
		assert.Contains(t, []string{"1", "2", "3", "5"}, s.Str("strace.inv"))
		assert.Empty(t, s.Str("strace.incomplete"))
	}
}

func outcome(samples map[string]float64, value string) float64 {
	var sum float64
	for name, v := range samples {
		if strings.HasPrefix(name, "otelcol_receiver_stracelog_records{") && strings.Contains(name, `outcome="`+value+`"`) {
			sum += v
		}
	}
	return sum
}

// TestMissingPath starts on a path that is not there: the Collector says which
// and reads it once it appears.
func TestMissingPath(t *testing.T) {
	c := harness.New(t, []string{"local.yaml"})
	c.Start()
	assert.Contains(t, c.Log(), "run/logs")
	assert.Contains(t, c.Log(), "watching for it")
	require.NoError(t, os.MkdirAll(filepath.Join(c.Dir, "run", "logs", "deep", "er"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, "run", "logs", "deep", "er", "host.7.log"), []byte(anchor+invocation(1, 10_000)), 0o600))
	require.Eventually(t, func() bool { return len(c.Spans()) == 3 }, 10*time.Second, 50*time.Millisecond)
}

// TestFirstSpanAndStop bounds what a user waits for: from start to the first
// span on disk, and from SIGTERM to the end with nothing left in memory.
func TestFirstSpanAndStop(t *testing.T) {
	c := harness.New(t, []string{"local.yaml"})
	logs := filepath.Join(c.Dir, "run", "logs")
	require.NoError(t, os.MkdirAll(logs, 0o755))
	path := filepath.Join(logs, "host.7.log")
	require.NoError(t, os.WriteFile(path, []byte(anchor+invocation(1, 10_000)), 0o600))
	started := time.Now()
	c.Start()
	require.Eventually(t, func() bool { return len(c.Spans()) == 3 }, 10*time.Second, 10*time.Millisecond)
	first := time.Since(started)
	t.Logf("first span after %s", first)
	assert.Less(t, first, 2*time.Second)

	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	for inv := 2; inv <= 1001; inv++ {
		_, err := f.WriteString(invocation(inv, inv*10_000))
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	require.Eventually(t, func() bool { return outcome(c.OwnMetrics(), "span") == 3003 }, 10*time.Second, 20*time.Millisecond)
	took := c.Stop()
	t.Logf("stopped after %s", took)
	assert.Less(t, took, 5*time.Second)
	// What was read is out, or in the storage for the next start.
	c.Start()
	require.Eventually(t, func() bool { return len(c.Spans()) == 3003 }, 10*time.Second, 50*time.Millisecond)
	c.Stop()
	assert.Len(t, c.Spans(), 3003)
}
