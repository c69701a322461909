// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
	"github.com/phasecol/phasecol/test/records"
	"github.com/phasecol/phasecol/test/sink"
)

const gateways = "gateways.test"

// cluster is three agents, two gateways and a trace store.
type cluster struct {
	t        *testing.T
	net      *network
	store    *sink.Sink
	agents   []*process
	gateways []*process
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, net: newNetwork(t)}
	backend := c.net.host("store")
	c.store = sink.Serve(t, backend.listen("4317"))
	for i := range 2 {
		h := c.net.host(fmt.Sprintf("gateway%d", i+1))
		// Each writes its name on what passes through it.
		c.gateways = append(c.gateways, h.collector(t, []string{"gateway.yaml"},
			[]string{"PHASECOL_BACKEND=" + c.store.Address, "PHASECOL_BACKEND_INSECURE=true"}, fmt.Sprintf(`
processors: {resource/way: {attributes: [{key: way, value: gateway%d, action: upsert}]}}
service: {pipelines: {traces/in: {receivers: [otlp], processors: [memory_limiter, resource/way], exporters: [forward/phased]}}}
`, i+1)))
	}
	for i := range 3 {
		h := c.net.host(fmt.Sprintf("agent%d", i+1))
		agent := h.collector(t, []string{"agent.yaml", "loadbalance.yaml"}, []string{
			"PHASECOL_NODE=" + nodeName(i), "PHASECOL_GATEWAYS=" + gateways, "PHASECOL_GATEWAY_INSECURE=true",
		}, "")
		agent.env = append(agent.env, fmt.Sprintf("PHASECOL_LOGS=[%q, %q]", filepath.Join(agent.Dir, "logs", "*.log"), filepath.Join(agent.Dir, "logs", "*.log.*")))
		c.agents = append(c.agents, agent)
	}
	c.resolve(c.gateways...)
	for _, p := range append(c.gateways, c.agents...) {
		p.Start()
	}
	return c
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

// resolve tells the agents which gateways there are.
func (c *cluster) resolve(there ...*process) {
	var addresses []string
	for _, p := range there {
		addresses = append(addresses, p.host.Address)
	}
	for _, agent := range c.agents {
		agent.host.resolve(gateways, addresses...)
	}
}

// serve starts a serving process on every agent's host.
func (c *cluster) serve(duration time.Duration) (wait func()) {
	c.t.Helper()
	var running []*exec.Cmd
	for i, agent := range c.agents {
		cmd := agent.host.command(harness.Stracegen(c.t), "--quiet", "--realtime", "--duration", duration.String(), "--rate", "2", "--time-scale", "0.5",
			"--ranks", "1", "--seed", strconv.Itoa(i+1), "--rotate-bytes", "500000", "--out", filepath.Join(agent.Dir, "logs"),
			"--host-name", nodeName(i), "--otlp", "http://"+agent.host.Address+":4318")
		require.NoError(c.t, cmd.Start())
		c.t.Cleanup(func() { _ = cmd.Process.Kill() })
		running = append(running, cmd)
	}
	return func() {
		for _, cmd := range running {
			_ = cmd.Wait() // requests may have found no agent, which it says by its status
		}
	}
}

// moving waits until spans of every named node have arrived since.
func (c *cluster) moving(nodes ...string) {
	c.t.Helper()
	count := func() map[any]int {
		byNode := map[any]int{}
		for _, s := range c.store.Spans() {
			byNode[s.Resource["host.name"]]++
		}
		return byNode
	}
	before := count()
	require.Eventually(c.t, func() bool {
		now := count()
		for _, node := range nodes {
			if now[node] < before[node]+50 {
				return false
			}
		}
		return true
	}, 90*time.Second, 100*time.Millisecond, "no spans of %v", nodes)
}

// partitioned is how long an agent is cut off: a minute when there is time.
func partitioned(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("PHASECOL_PARTITION")
	if text == "" {
		return 8 * time.Second
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

// TestCluster goes through a bad day: nothing that was in a log is lost, and
// what arrives twice is the same.
func TestCluster(t *testing.T) {
	c := newCluster(t)
	cut := partitioned(t)
	served := c.serve(cut + 15*time.Second)
	all := []string{nodeName(0), nodeName(1), nodeName(2)}

	c.moving(all...)
	checkSpread(t, c.store.Spans())

	c.gateways[1].Kill()
	c.moving(nodeName(0)) // whose traces for the one that lives pass
	c.resolve(c.gateways[0])
	c.moving(all...)

	c.agents[2].host.partition()
	healed := time.After(cut)
	c.moving(nodeName(0), nodeName(1))
	c.gateways[1].Start()
	c.resolve(c.gateways...)
	c.moving(nodeName(0), nodeName(1))
	<-healed
	c.agents[2].host.connect()
	c.moving(all...)

	for _, p := range append(c.gateways, c.agents...) {
		p.Restart()
	}
	served()
	c.requireWhole()
}

// checkSpread asks that each trace took one way, and that both ways are used.
func checkSpread(t *testing.T, spans []harness.Span) {
	t.Helper()
	ways := map[any]int{}
	way := map[string]any{}
	for _, s := range spans {
		id := s.TraceID().String()
		if taken, ok := way[id]; ok {
			assert.Equalf(t, taken, s.Resource["way"], "trace %s took two ways", id)
			continue
		}
		way[id] = s.Resource["way"]
		ways[s.Resource["way"]]++
	}
	for _, gateway := range []string{"gateway1", "gateway2"} {
		assert.Greater(t, ways[gateway], len(way)/5, "%v", ways)
	}
}

func (c *cluster) requireWhole() {
	c.t.Helper()
	want := records.Set{}
	for i, agent := range c.agents {
		want.Add(records.InLogs(c.t, nodeName(i), filepath.Join(agent.Dir, "logs")))
	}
	require.NotEmpty(c.t, want)
	var missing, extra []string
	require.Eventually(c.t, func() bool {
		missing, extra = want.Missing(records.OfSpans(c.store.Spans()))
		return len(missing) == 0
	}, 90*time.Second, 500*time.Millisecond)
	assert.Empty(c.t, extra)
	again, first := c.store.Repeats()
	for i := range again {
		assert.Equal(c.t, first[i].Name(), again[i].Name())
		assert.Equal(c.t, first[i].StartTimestamp(), again[i].StartTimestamp())
		assert.Equal(c.t, first[i].EndTimestamp(), again[i].EndTimestamp())
		assert.Equal(c.t, first[i].ParentSpanID(), again[i].ParentSpanID())
	}
	c.t.Logf("%d records in logs, all arrived; %d spans, %d of them again", want.Len(), c.store.Len(), len(again))
}
