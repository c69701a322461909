// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/cmd/stracegen/truth"
	"github.com/phasecol/phasecol/test/tier"
)

// TestJaeger sends a simulated serving process through an agent and a gateway to
// a real Jaeger, and asks it for the traces as its own UI would.
func TestJaeger(t *testing.T) {
	store := startJaeger(t)
	gateway := tier.Gateway(t, store.OTLP, nil)
	gateway.Start()
	agent := tier.Agent(t, gateway.GRPC, nil)
	agent.Start()
	truthPath := filepath.Join(agent.Dir, "truth.json")
	tier.Simulate(t, tier.Logs(agent), agent.HTTP, "--realtime", "--requests", "10", "--ranks", "2", "--truth", truthPath)
	want, err := truth.Read(truthPath)
	require.NoError(t, err)

	joined := 0
	for i := range want.Requests {
		request := &want.Requests[i]
		var spans map[string]*jaegerSpan
		require.Eventually(t, func() bool {
			spans = store.trace(t, request.TraceID)
			return spans[request.SpanID] != nil
		}, 30*time.Second, 100*time.Millisecond, "request %s", request.ID)
		assert.Equal(t, "atom.request", spans[request.SpanID].OperationName)
		for j := range request.Sequences {
			sequence := &request.Sequences[j]
			engine := spans[sequence.SpanID]
			require.NotNil(t, engine)
			assert.Equal(t, "engine.request", engine.OperationName)
			embedded := false
			for k := range sequence.Phases {
				phase := &sequence.Phases[k]
				span := spans[phase.SpanID]
				require.NotNil(t, span, phase.Name)
				assert.Equal(t, sequence.SpanID, span.parent())
				if phase.HostRuns == 0 {
					continue
				}
				joined++
				embedded = embedded || hasEmbedded(spans, span)
				requireLinked(t, store, span, phase)
			}
			assert.Truef(t, embedded, "no host run inside the trace of request %s", request.ID)
		}
	}
	assert.Positive(t, joined)
}

// hasEmbedded looks for the copy of a host run below a phase, down to what the
// device stamped.
func hasEmbedded(spans map[string]*jaegerSpan, phase *jaegerSpan) bool {
	below := map[any]bool{}
	for _, span := range spans {
		if copied, _ := span.tag("phase.copy").(bool); !copied {
			continue
		}
		for at := span; at != nil; at = spans[at.parent()] {
			if at == phase {
				below[span.tag("strace.stage")] = true
			}
		}
	}
	return below["run"] && below["run.bind"] && below["run.runner_run"] && below["run.runner_run.device_wall"]
}

// requireLinked follows the links of a phase to the host runs' own traces.
func requireLinked(t *testing.T, store *jaeger, phase *jaegerSpan, want *truth.Phase) {
	t.Helper()
	links := 0
	for _, ref := range phase.References {
		if ref.RefType != "FOLLOWS_FROM" {
			continue
		}
		links++
		assert.NotEqual(t, phase.TraceID, ref.TraceID)
		var host *jaegerSpan
		require.Eventually(t, func() bool {
			host = store.trace(t, ref.TraceID)[ref.SpanID]
			return host != nil
		}, 30*time.Second, 100*time.Millisecond, "linked run %s", ref.TraceID)
		assert.Equal(t, "run", host.tag("strace.stage"))
		assert.Nil(t, host.tag("phase.copy"))
	}
	assert.Equal(t, min(32, want.HostRuns), links, phase.OperationName)
}
