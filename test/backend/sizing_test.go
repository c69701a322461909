// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
	"github.com/phasecol/phasecol/test/sink"
	"github.com/phasecol/phasecol/test/tier"
)

// BenchmarkTiers measures what docs/sizing.md says: an agent and a gateway, with
// metrics, while a serving process runs, and when a backlog is read.
//
//	go test -run '^$' -bench Tiers -benchtime 1x ./test/backend
func BenchmarkTiers(b *testing.B) {
	for _, ranks := range []int{1, 8} {
		b.Run(fmt.Sprintf("live/ranks=%d", ranks), func(b *testing.B) {
			for b.Loop() {
				measure(b, func(agent *harness.Collector) {
					tier.Simulate(b, tier.Logs(agent), agent.HTTP, "--realtime", "--duration", "20s", "--rate", "10", "--ranks", strconv.Itoa(ranks))
				}, true)
			}
		})
	}
	b.Run("backlog", func(b *testing.B) {
		for b.Loop() {
			measure(b, func(agent *harness.Collector) {
				dir := b.TempDir()
				tier.Simulate(b, dir, "", "--requests", "600", "--ranks", "8", "--time-scale", "0.1")
				require.NoError(b, os.Rename(dir, tier.Logs(agent)))
			}, false)
		}
	})
	b.Run("outage", func(b *testing.B) {
		for b.Loop() {
			outage(b)
		}
	})
}

// measure runs work on a fresh pair and reports the cost of what arrives.
func measure(b *testing.B, work func(*harness.Collector), live bool) {
	b.Helper()
	store := sink.Start(b)
	gateway := tier.Gateway(b, store.Address, []string{"metrics.yaml"})
	gateway.Setenv("PHASECOL_METRICS", gateway.Metrics)
	gateway.Start()
	agent := tier.Agent(b, gateway.GRPC, nil)
	agent.Start()
	agentBefore, gatewayBefore := cpu(b, agent), cpu(b, gateway)
	started := time.Now()
	work(agent)
	worked := time.Since(started)
	if !live {
		started = time.Now()
	}
	settle(b, store.Len)
	spans := float64(store.Len())
	elapsed := worked.Seconds()
	if !live {
		elapsed = time.Since(started).Seconds() - quiet.Seconds()
	}
	b.ReportMetric(spans/elapsed, "spans/s")
	b.ReportMetric((cpu(b, agent)-agentBefore)*1e6/spans, "agent-cpu-us/span")
	b.ReportMetric((cpu(b, gateway)-gatewayBefore)*1e6/spans, "gateway-cpu-us/span")
	b.ReportMetric(memory(b, agent), "agent-peak-MiB")
	b.ReportMetric(memory(b, gateway), "gateway-peak-MiB")
	agent.Kill()
	gateway.Kill()
}

// outage lets spans gather on the agent's disk.
func outage(b *testing.B) {
	b.Helper()
	agent := tier.Agent(b, harness.FreeAddress(b), nil)
	agent.Start()
	tier.Simulate(b, tier.Logs(agent), agent.HTTP, "--realtime", "--duration", "20s", "--rate", "10", "--ranks", "8")
	settle(b, func() int { return int(harness.Sum(agent.OwnMetrics(), "otelcol_exporter_queue_size")) })
	spans := harness.Sum(agent.OwnMetrics(), "otelcol_receiver_accepted_spans")
	var logs, state int64
	logs, state = size(b, tier.Logs(agent)), size(b, filepath.Join(agent.Dir, "run", "state"))
	queue := harness.Sum(agent.OwnMetrics(), "otelcol_exporter_queue_size")
	b.ReportMetric(float64(logs), "log-B")
	b.ReportMetric(float64(state), "state-B")
	b.ReportMetric(queue, "queue-B")
	b.ReportMetric(spans, "spans")
	b.ReportMetric(memory(b, agent), "agent-peak-MiB")
	agent.Kill()
}

const quiet = 4 * time.Second

// settle waits until count has not changed for a while.
func settle(b *testing.B, count func() int) {
	b.Helper()
	last, since := -1, time.Now()
	require.Eventually(b, func() bool {
		if now := count(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= quiet
	}, 10*time.Minute, 50*time.Millisecond)
}

// cpu is the time it has computed, in seconds.
func cpu(b *testing.B, c *harness.Collector) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.PID()))
	require.NoError(b, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	var ticks float64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseFloat(field, 64)
		require.NoError(b, err)
		ticks += n
	}
	return ticks / 100
}

// memory is the most it has held, in MiB.
func memory(b *testing.B, c *harness.Collector) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID()))
	require.NoError(b, err)
	for line := range strings.Lines(string(text)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseFloat(strings.Fields(kib)[0], 64)
			require.NoError(b, err)
			return n / 1024
		}
	}
	require.FailNow(b, "no VmHWM")
	return 0
}

func size(b *testing.B, dir string) (sum int64) {
	b.Helper()
	require.NoError(b, filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	}))
	return sum
}
