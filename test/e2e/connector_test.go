// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

// TestConnector sends a host runtime's lines as OTLP log records, as a site
// does that collects its logs already, and gets the same spans.
func TestConnector(t *testing.T) {
	c := harness.New(t, []string{"local.yaml"}, `
connectors:
  stracelog/logs: {} # a receiver has the plain name already
service:
  pipelines:
    logs:
      receivers: [otlp]
      exporters: [stracelog/logs]
    traces/in:
      receivers: [stracelog, stracelog/logs, otlp, otlp/atom]
`)
	c.Start()
	var records bytes.Buffer
	for i, line := range bytes.Split(bytes.TrimSpace([]byte(anchor+invocation(1, 10_000)+invocation(2, 20_000))), []byte("\n")) {
		if i > 0 {
			records.WriteByte(',')
		}
		fmt.Fprintf(&records, `{"body":{"stringValue":%q}}`, line)
	}
	body := fmt.Sprintf(`{"resourceLogs":[{"resource":{"attributes":[{"key":"k8s.pod.uid","value":{"stringValue":"u-1"}}]},"scopeLogs":[{"logRecords":[%s]}]}]}`, records.String())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.HTTP+"/v1/logs", bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)

	require.Eventually(t, func() bool { return len(c.Spans()) >= 6 }, 10*time.Second, 50*time.Millisecond)
	c.Stop()
	spans := c.Spans()
	assert.Len(t, spans, 6)
	for _, s := range spans {
		assert.Equal(t, "u-1", s.Resource["k8s.pod.uid"], "the log's own resource is kept")
		assert.Equal(t, "anchor", s.Str("strace.clock.source"))
	}
	for _, s := range roots(spans) {
		assert.Equal(t, int64(1000), s.Duration())
		assert.GreaterOrEqual(t, int64(s.StartTimestamp()), int64(1790000000000010000))
	}
}
