// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

func itoa(n int) string { return strconv.Itoa(n) }

// procAddress decodes "0100007F:1F90" of /proc/net/tcp: 32-bit words in the
// machine's (little-endian) order.
func procAddress(t *testing.T, text string) string {
	t.Helper()
	host, port, ok := strings.Cut(text, ":")
	require.True(t, ok)
	raw, err := hex.DecodeString(host)
	require.NoError(t, err)
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	n, err := strconv.ParseUint(port, 16, 16)
	require.NoError(t, err)
	return net.JoinHostPort(net.IP(raw).String(), strconv.FormatUint(n, 10))
}

// metricsOverride gives config/metrics.yaml a port of its own.
func metricsOverride(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("exporters: {prometheus: {endpoint: %q}}\n", harness.FreeAddress(t))
}
