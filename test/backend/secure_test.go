// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
	"github.com/phasecol/phasecol/test/pki"
	"github.com/phasecol/phasecol/test/sink"
	"github.com/phasecol/phasecol/test/tier"
)

// requests are one trace, so that few spans have to pass.
var oneRequest = []string{"--requests", "1", "--output", "2", "--ranks", "1"}

const (
	sent    = "otelcol_exporter_sent_spans"
	refused = "otelcol_exporter_send_failed_spans"
)

// TestSecureGateway tries one gateway that asks for a certificate and a token
// with every kind of sender: only the right one gets spans through.
func TestSecureGateway(t *testing.T) {
	ca, other := pki.New(t, "ca"), pki.New(t, "other")
	serverCert, serverKey := ca.Issue(t, "127.0.0.1")
	agentCert, agentKey := ca.Issue(t, "agent")
	strangerCert, strangerKey := other.Issue(t, "agent")

	store := sink.Start(t)
	gateway := tier.Gateway(t, store.Address, []string{"gateway-tls.yaml", "gateway-token.yaml"})
	tokens := filepath.Join(gateway.Dir, "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte("old-token\nright-token # since today\n"), 0o600))
	gateway.Setenv("PHASECOL_CERT_FILE", serverCert)
	gateway.Setenv("PHASECOL_KEY_FILE", serverKey)
	gateway.Setenv("PHASECOL_CLIENT_CA_FILE", ca.File)
	gateway.Setenv("PHASECOL_TOKEN_FILE", tokens)
	gateway.Start()

	right := map[string]string{
		"PHASECOL_CA_FILE": ca.File, "PHASECOL_CERT_FILE": agentCert, "PHASECOL_KEY_FILE": agentKey, "PHASECOL_TOKEN": "right-token",
	}
	for _, tc := range []struct {
		name    string
		change  map[string]string
		noToken bool
		// final: the refusal is an answer, after which the spans are given up. Else
		// they wait for something to change.
		final bool
		log   string
	}{
		{name: "no certificate", change: map[string]string{"PHASECOL_CERT_FILE": "", "PHASECOL_KEY_FILE": ""}, log: "Unavailable"},
		{name: "certificate of another authority", change: map[string]string{"PHASECOL_CERT_FILE": strangerCert, "PHASECOL_KEY_FILE": strangerKey}, log: "Unavailable"},
		{name: "gateway of another authority", change: map[string]string{"PHASECOL_CA_FILE": other.File}, log: "unknown authority"},
		{name: "gateway of no known authority", change: map[string]string{"PHASECOL_CA_FILE": ""}, log: "unknown authority"},
		{name: "no TLS", change: map[string]string{"PHASECOL_GATEWAY_INSECURE": "true", "PHASECOL_CA_FILE": "", "PHASECOL_CERT_FILE": "", "PHASECOL_KEY_FILE": ""}, noToken: true, log: "Unavailable"},
		{name: "no token", noToken: true, final: true, log: "Unauthenticated"},
		{name: "wrong token", change: map[string]string{"PHASECOL_TOKEN": "wrong-token"}, final: true, log: "Unauthenticated"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			agent := secureAgent(t, gateway.GRPC, !tc.noToken, right, tc.change)
			agent.Start()
			tier.Simulate(t, tier.Logs(agent), agent.HTTP, oneRequest...)
			require.Eventually(t, func() bool { return strings.Contains(agent.Log(), tc.log) }, 30*time.Second, 50*time.Millisecond, tc.log)
			if tc.final {
				require.Eventually(t, func() bool { return harness.Sum(agent.OwnMetrics(), refused) > 0 }, 30*time.Second, 50*time.Millisecond)
			}
			assert.Zero(t, harness.Sum(agent.OwnMetrics(), sent))
			assert.Zero(t, store.Len())
			agent.Kill() // nobody there to take what it still has
		})
	}

	for _, token := range []string{"right-token", "old-token"} {
		t.Run(token, func(t *testing.T) {
			before := store.Len()
			agent := secureAgent(t, gateway.GRPC, true, right, map[string]string{"PHASECOL_TOKEN": token})
			agent.Start()
			tier.Simulate(t, tier.Logs(agent), agent.HTTP, oneRequest...)
			require.Eventually(t, func() bool { return store.Len() > before+10 }, 30*time.Second, 50*time.Millisecond)
			assert.Zero(t, harness.Sum(agent.OwnMetrics(), refused))
		})
	}
}

func secureAgent(t *testing.T, gateway string, token bool, variables ...map[string]string) *harness.Collector {
	t.Helper()
	var fragments []string
	if token {
		fragments = append(fragments, "agent-token.yaml")
	}
	agent := tier.Agent(t, gateway, fragments)
	agent.Setenv("PHASECOL_GATEWAY_INSECURE", "false")
	for _, set := range variables {
		for name, value := range set {
			agent.Setenv(name, value)
		}
	}
	return agent
}

// TestSecureHTTP asks the same of the HTTP listener.
func TestSecureHTTP(t *testing.T) {
	ca := pki.New(t, "ca")
	cert, key := ca.Issue(t, "127.0.0.1")
	store := sink.Start(t)
	gateway := tier.Gateway(t, store.Address, []string{"gateway-tls.yaml", "gateway-token.yaml"})
	gateway.Setenv("PHASECOL_CERT_FILE", cert)
	gateway.Setenv("PHASECOL_KEY_FILE", key)
	gateway.Setenv("PHASECOL_TOKEN", "right-token")
	gateway.Start()

	client := ca.Client(t)
	for token, want := range map[string]int{"": http.StatusUnauthorized, "wrong-token": http.StatusUnauthorized, "right-token": http.StatusOK} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+gateway.HTTP+"/v1/traces", strings.NewReader(`{"resourceSpans":[]}`))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, want, response.StatusCode, token)
	}
}

// TestSecureLoadBalancing sends the token on the way that chooses a gateway,
// where the gateway's name is not its address.
func TestSecureLoadBalancing(t *testing.T) {
	ca := pki.New(t, "ca")
	cert, key := ca.Issue(t, "gateways.test")
	store := sink.Start(t)
	gateway := tier.Gateway(t, store.Address, []string{"gateway-tls.yaml", "gateway-token.yaml"})
	gateway.Setenv("PHASECOL_CERT_FILE", cert)
	gateway.Setenv("PHASECOL_KEY_FILE", key)
	gateway.Setenv("PHASECOL_CLIENT_CA_FILE", ca.File)
	gateway.Setenv("PHASECOL_TOKEN", "right-token")
	gateway.Start()

	host, port, err := net.SplitHostPort(gateway.GRPC)
	require.NoError(t, err)
	agentCert, agentKey := ca.Issue(t, "agent")
	for _, token := range []string{"wrong-token", "right-token"} {
		agent := tier.Agent(t, "", []string{"loadbalance.yaml", "loadbalance-token.yaml"})
		for name, value := range map[string]string{
			"PHASECOL_GATEWAYS": host, "PHASECOL_GATEWAYS_PORT": port, "PHASECOL_GATEWAY_NAME": "gateways.test", "PHASECOL_GATEWAY_INSECURE": "false",
			"PHASECOL_CA_FILE": ca.File, "PHASECOL_CERT_FILE": agentCert, "PHASECOL_KEY_FILE": agentKey, "PHASECOL_TOKEN": token,
		} {
			agent.Setenv(name, value)
		}
		agent.Start()
		tier.Simulate(t, tier.Logs(agent), agent.HTTP, oneRequest...)
		if token == "wrong-token" {
			require.Eventually(t, func() bool { return harness.Sum(agent.OwnMetrics(), refused) > 0 }, 30*time.Second, 50*time.Millisecond)
			require.Zero(t, store.Len())
			continue
		}
		requireWhole(t, agent, store)
	}
}
