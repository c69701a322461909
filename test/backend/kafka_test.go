// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
	"github.com/phasecol/phasecol/test/records"
	"github.com/phasecol/phasecol/test/sink"
	"github.com/phasecol/phasecol/test/tier"
)

// broker is one node of Apache Kafka.
type broker struct {
	Address string
	t       *testing.T
	jars    string
	config  string
	kill    func()
}

// newBroker prepares a node whose topics have four partitions.
func newBroker(t *testing.T) *broker {
	t.Helper()
	dir := t.TempDir()
	b := &broker{Address: harness.FreeAddress(t), t: t, jars: filepath.Join(cached(t, "kafka-*"), "*"), config: filepath.Join(dir, "server.properties")}
	controller := harness.FreeAddress(t)
	require.NoError(t, os.WriteFile(b.config, fmt.Appendf(nil, `
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[2]s
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[1]s
log.dirs=%[3]s
num.partitions=4
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
group.initial.rebalance.delay.ms=0
`, b.Address, controller, filepath.Join(dir, "data")), 0o600))
	const anyID = "4L6g3nShT-eMCtK--X86sw"
	out, err := exec.CommandContext(t.Context(), "java", "-Xmx128m", "-cp", b.jars,
		"kafka.tools.StorageTool", "format", "-t", anyID, "-c", b.config).CombinedOutput()
	require.NoError(t, err, string(out))
	return b
}

// Start runs it until Kill or the test's end.
func (b *broker) Start() {
	b.t.Helper()
	var log string
	log, b.kill = startPeer(b.t, "java", "-Xmx384m", "-cp", b.jars, "kafka.Kafka", b.config)
	requireListening(b.t, b.Address, log)
}

// TestKafka puts a real broker between an agent and two gateways, and kills in
// turn the broker and a gateway.
func TestKafka(t *testing.T) {
	kafka := newBroker(t)
	kafka.Start()
	stores := []*sink.Sink{sink.Start(t), sink.Start(t)}
	gateways := make([]*harness.Collector, len(stores))
	for i, store := range stores {
		gateways[i] = onKafka(tier.Gateway(t, store.Address, []string{"kafka-gateway.yaml"},
			"receivers: {kafka: {session_timeout: 6s, heartbeat_interval: 1s, metadata: {refresh_interval: 6s}}}"), kafka)
	}
	// The test's broker makes the topic; a site makes it itself.
	agent := onKafka(tier.Agent(t, "", []string{"kafka-agent.yaml"}, "exporters: {kafka: {producer: {allow_auto_topic_creation: true}}}"), kafka)
	agent.Start()
	for _, gateway := range gateways {
		gateway.Start()
	}
	// Some life before the group has settled.
	tier.Simulate(t, tier.Logs(agent), agent.HTTP, serving...)
	requireWholeIn(t, agent, stores)
	settled := []int{stores[0].Len(), stores[1].Len()}
	before := traces(distinct(stores))

	tier.Simulate(t, tier.Logs(agent), agent.HTTP, append(serving, "--seed", "2")...)
	requireWholeIn(t, agent, stores)
	for i, store := range stores {
		assert.Greater(t, store.Len(), settled[i], "gateway %d has no partition", i)
	}
	requireApart(t, stores, before)

	kafka.kill()
	tier.Simulate(t, tier.Logs(agent), agent.HTTP, append(serving, "--seed", "3")...)
	kafka.Start()
	gateways[1].Kill()
	requireWholeIn(t, agent, stores)
	requireSame(t, stores[0])
}

// requireWholeIn is requireWhole over several stores.
func requireWholeIn(t *testing.T, agent *harness.Collector, stores []*sink.Sink) {
	t.Helper()
	want := records.InLogs(t, "node-1", tier.Logs(agent))
	var missing, extra []string
	require.Eventually(t, func() bool {
		missing, extra = want.Missing(records.OfSpans(distinct(stores)))
		return len(missing) == 0
	}, 90*time.Second, 200*time.Millisecond)
	assert.Empty(t, extra)
}

func traces(spans []harness.Span) map[string]bool {
	ids := map[string]bool{}
	for _, span := range spans {
		ids[span.TraceID().String()] = true
	}
	return ids
}

func onKafka(c *harness.Collector, kafka *broker) *harness.Collector {
	c.Setenv("PHASECOL_KAFKA", fmt.Sprintf("[%q]", kafka.Address))
	c.Setenv("PHASECOL_KAFKA_INSECURE", "true")
	return c
}

// requireApart asks that no trace is at both stores, except for those of old.
func requireApart(t *testing.T, stores []*sink.Sink, old map[string]bool) {
	t.Helper()
	seen := map[string]int{}
	for i, store := range stores {
		for _, span := range store.Spans() {
			id := span.TraceID().String()
			at, ok := seen[id]
			require.Truef(t, !ok || at == i || old[id], "trace %s is at both", id)
			seen[id] = i
		}
	}
}

// distinct returns the spans of all stores, each once.
func distinct(stores []*sink.Sink) []harness.Span {
	seen := map[sink.ID]bool{}
	var spans []harness.Span
	for _, store := range stores {
		for _, span := range store.Spans() {
			id := sink.ID{Trace: span.TraceID(), Span: span.SpanID()}
			if !seen[id] {
				seen[id] = true
				spans = append(spans, span)
			}
		}
	}
	return spans
}
