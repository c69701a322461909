// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

// cached finds what setup.sh has put into the cache.
func cached(t *testing.T, pattern string) string {
	t.Helper()
	dir := os.Getenv("PHASECOL_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		require.NoError(t, err)
		dir = filepath.Join(base, "phasecol")
	}
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	require.NotEmptyf(t, found, "no %s in %s: run test/backend/setup.sh", pattern, dir)
	return found[len(found)-1]
}

// startPeer runs a real peer until the test ends or kill is called; its output
// is in log.
func startPeer(t *testing.T, name string, args ...string) (log string, kill func()) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "peer.log")
	file, err := os.Create(log) // #nosec G304 -- the test's own folder
	require.NoError(t, err)
	cmd := exec.Command(name, args...) //nolint:noctx // ends by signal
	cmd.Stdout, cmd.Stderr = file, file
	require.NoError(t, cmd.Start())
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		_ = file.Close()
	})
	t.Cleanup(kill)
	return log, kill
}

// requireListening waits for address to be there.
func requireListening(t *testing.T, address, log string) {
	t.Helper()
	require.Eventually(t, func() bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}, 60*time.Second, 50*time.Millisecond, "log: %s", log)
}

// jaeger is a Jaeger with storage in memory.
type jaeger struct {
	OTLP, Query string
}

func startJaeger(t *testing.T) *jaeger {
	t.Helper()
	j := &jaeger{OTLP: harness.FreeAddress(t), Query: harness.FreeAddress(t)}
	config := filepath.Join(t.TempDir(), "jaeger.yaml")
	require.NoError(t, os.WriteFile(config, []byte(`
extensions:
  jaeger_storage: {backends: {main: {memory: {max_traces: 100000}}}}
  jaeger_query:
    storage: {traces: main}
    http: {endpoint: "`+j.Query+`"}
    grpc: {endpoint: "`+harness.FreeAddress(t)+`"}
receivers:
  otlp: {protocols: {grpc: {endpoint: "`+j.OTLP+`"}}}
exporters:
  jaeger_storage_exporter: {trace_storage: main}
service:
  extensions: [jaeger_storage, jaeger_query]
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}
`), 0o600))
	log, _ := startPeer(t, cached(t, "jaeger-v*"), "--config", config)
	requireListening(t, j.OTLP, log)
	requireListening(t, j.Query, log)
	return j
}

// jaegerSpan is a span as the query API gives it.
type jaegerSpan struct {
	TraceID       string `json:"traceID"`
	SpanID        string `json:"spanID"`
	OperationName string `json:"operationName"`
	References    []struct {
		RefType string `json:"refType"`
		TraceID string `json:"traceID"`
		SpanID  string `json:"spanID"`
	} `json:"references"`
	Tags []struct {
		Key   string `json:"key"`
		Value any    `json:"value"`
	} `json:"tags"`
	DurationMicros int64 `json:"duration"`
}

func (s *jaegerSpan) tag(key string) any {
	for _, tag := range s.Tags {
		if tag.Key == key {
			return tag.Value
		}
	}
	return nil
}

// parent is the span id of its parent in its own trace.
func (s *jaegerSpan) parent() string {
	for _, ref := range s.References {
		if ref.RefType == "CHILD_OF" && ref.TraceID == s.TraceID {
			return ref.SpanID
		}
	}
	return ""
}

// trace asks for one trace; nil when it is not there.
func (j *jaeger) trace(t *testing.T, id string) map[string]*jaegerSpan {
	t.Helper()
	response, err := http.Get("http://" + j.Query + "/api/traces/" + id) //nolint:noctx // loopback
	require.NoError(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil
	}
	var answer struct {
		Data []struct {
			Spans []*jaegerSpan `json:"spans"`
		} `json:"data"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	require.Len(t, answer.Data, 1)
	spans := map[string]*jaegerSpan{}
	for _, span := range answer.Data[0].Spans {
		spans[span.SpanID] = span
	}
	return spans
}
