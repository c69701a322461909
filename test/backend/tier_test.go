// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
	"github.com/phasecol/phasecol/test/records"
	"github.com/phasecol/phasecol/test/sink"
	"github.com/phasecol/phasecol/test/tier"
)

// serving is a short piece of a serving process's life.
var serving = []string{"--realtime", "--time-scale", "0.1", "--requests", "30", "--rate", "30", "--ranks", "2"}

// requireWhole waits until every record in the agent's logs is a span at the
// sink, and asks for no span that no record accounts for.
func requireWhole(t *testing.T, agent *harness.Collector, store *sink.Sink) {
	t.Helper()
	want := records.InLogs(t, "node-1", tier.Logs(agent))
	require.NotEmpty(t, want)
	var missing, extra []string
	require.Eventually(t, func() bool {
		missing, extra = want.Missing(records.OfSpans(store.Spans()))
		return len(missing) == 0
	}, 60*time.Second, 200*time.Millisecond)
	assert.Empty(t, extra)
}

// requireSame asks that what came twice is the same span, not another with the
// same identifiers.
func requireSame(t *testing.T, store *sink.Sink) (repeats int) {
	t.Helper()
	again, first := store.Repeats()
	for i := range again {
		assert.Equal(t, first[i].Name(), again[i].Name())
		assert.Equal(t, first[i].StartTimestamp(), again[i].StartTimestamp())
		assert.Equal(t, first[i].EndTimestamp(), again[i].EndTimestamp())
		assert.Equal(t, first[i].ParentSpanID(), again[i].ParentSpanID())
	}
	return len(again)
}

// TestGatewayLosesNothing kills the gateway, which has no disk, while spans pass
// through it, and lets the store refuse for a while.
func TestGatewayLosesNothing(t *testing.T) {
	store := sink.Start(t)
	gateway := tier.Gateway(t, store.Address, nil)
	gateway.Start()
	agent := tier.Agent(t, gateway.GRPC, nil)
	agent.Start()

	simulated := make(chan error, 1)
	go func() {
		_, err := tier.SimulateCommand(t.Context(), t, tier.Logs(agent), agent.HTTP, serving...).Output()
		simulated <- err
	}()
	require.Eventually(t, func() bool { return store.Len() > 200 }, 30*time.Second, 10*time.Millisecond)
	store.Refuse(true)
	gateway.Kill()
	gateway.Start()
	before := store.Len()
	store.Refuse(false)
	require.Eventually(t, func() bool { return store.Len() > before }, 30*time.Second, 10*time.Millisecond)
	gateway.Kill()
	gateway.Start()
	require.NoError(t, <-simulated)

	requireWhole(t, agent, store)
	t.Logf("%d spans, %d of them again", store.Len(), requireSame(t, store))
}

// TestAgentLosesNothing kills the agent itself, with the gateway away.
func TestAgentLosesNothing(t *testing.T) {
	store := sink.Start(t)
	gateway := tier.Gateway(t, store.Address, nil)
	agent := tier.Agent(t, gateway.GRPC, nil)
	agent.Start()
	tier.Simulate(t, tier.Logs(agent), agent.HTTP, serving...)
	agent.Kill()
	agent.Start()
	tier.Simulate(t, tier.Logs(agent), agent.HTTP, append(serving, "--seed", "2")...)
	agent.Kill()
	gateway.Start()
	agent.Start()
	requireWhole(t, agent, store)
	t.Logf("%d spans, %d of them again", store.Len(), requireSame(t, store))
}
