// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/cmd/stracegen/truth"
	"github.com/phasecol/phasecol/test/harness"
	"github.com/phasecol/phasecol/test/sink"
	"github.com/phasecol/phasecol/test/tier"
)

// TestJoinAtGateways has two gateways join what agents do not: all spans of a
// group meet at one of them, and the join is the one that an agent would make.
func TestJoinAtGateways(t *testing.T) {
	var stores []*sink.Sink
	var hostnames []string
	for range 2 {
		store := sink.Start(t)
		stores = append(stores, store)
		gateway := tier.Gateway(t, store.Address, []string{"gateway-join.yaml"})
		gateway.Setenv("PHASECOL_JOIN_GROUP", "host.name")
		gateway.Setenv("PHASECOL_JOIN_WAIT", "2s")
		gateway.Start()
		hostnames = append(hostnames, strconv.Quote(gateway.GRPC))
	}
	agent := tier.Agent(t, "", []string{"loadbalance.yaml", "loadbalance-join.yaml"},
		"exporters: {load_balancing: {resolver: {dns: null, static: {hostnames: ["+strings.Join(hostnames, ", ")+"]}}}}")
	agent.Setenv("PHASECOL_JOIN_GROUP", "host.name")
	agent.Start()
	truthPath := filepath.Join(agent.Dir, "truth.json")
	tier.Simulate(t, tier.Logs(agent), agent.HTTP, append(serving, "--truth", truthPath)...)
	want, err := truth.Read(truthPath)
	require.NoError(t, err)

	phases := map[string]harness.Span{}
	for i := range want.Requests {
		for j := range want.Requests[i].Sequences {
			for k := range want.Requests[i].Sequences[j].Phases {
				phase := &want.Requests[i].Sequences[j].Phases[k]
				require.Eventually(t, func() bool {
					for _, s := range distinct(stores) {
						phases[s.SpanID().String()] = s
					}
					_, ok := phases[phase.SpanID]
					return ok
				}, 30*time.Second, 500*time.Millisecond)
				if phase.HostRuns > 0 {
					assert.Equal(t, strconv.Itoa(phase.HostRuns), phases[phase.SpanID].Str("phase.host_runs"), phase.Name)
				}
			}
		}
	}
	assert.NotEqual(t, stores[0].Len() == 0, stores[1].Len() == 0, "one group, one gateway: %d and %d", stores[0].Len(), stores[1].Len())
}
