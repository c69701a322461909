// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLoopbackOnly starts the tiers as they are shipped, on hosts where all ports
// are free, and looks at what those hosts listen on.
func TestLoopbackOnly(t *testing.T) {
	n := newNetwork(t)
	for name, configs := range map[string][]string{
		"agent":   {"agent.yaml", "metrics.yaml", "retention.yaml"},
		"gateway": {"gateway.yaml", "metrics.yaml", "retention.yaml", "gateway-queue.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			p := n.host(name).collector(t, configs, nil, "")
			p.env = nil // no PHASECOL_LISTEN
			p.Start()
			listening := listeners(t, p.cmd.Process.Pid)
			assert.Len(t, listening, 5, "%v", listening) // gRPC, HTTP, health, own metrics, span metrics
			const loopback = "0100007F"                  // 127.0.0.1, as the kernel prints it
			for _, address := range listening {
				assert.Truef(t, strings.HasPrefix(address, loopback+":"), "listens on %s", address)
			}
		})
	}
}

// listeners reads the TCP listeners of a process's host.
func listeners(t *testing.T, pid int) (found []string) {
	t.Helper()
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			const listen = "0A"
			if f := strings.Fields(line); len(f) > 3 && f[3] == listen {
				found = append(found, f[1])
			}
		}
	}
	return found
}
