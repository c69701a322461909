// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/exporter/chrometraceexporter/internal/metadata"
)

var update = flag.Bool("update", false, "write the golden files anew")

// stuck is a disk that does not answer until released.
type stuck struct {
	storage
	entered  chan struct{}
	once     sync.Once
	released chan struct{}
}

func (s *stuck) WriteAt(b []byte, at int64) (int, error) {
	s.once.Do(func() { close(s.entered) })
	<-s.released
	return s.storage.WriteAt(b, at)
}

// A disk that hangs fills the queue and no more: the pipeline gets an answer
// at once, and all that was taken is written when the disk answers again.
func TestHangingDiskDoesNotBlockPipeline(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Directory = t.TempDir()
	cfg.FlushInterval = 0
	cfg.QueueConfig.Get().QueueSize = 100
	exp, err := newTraceExporter(cfg, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	traces, err := withQueue(t.Context(), exportertest.NewNopSettings(metadata.Type), cfg, exp)
	require.NoError(t, err)
	require.NoError(t, traces.Start(t.Context(), componenttest.NewNopHost()))
	disk := &stuck{storage: exp.file.file, entered: make(chan struct{}), released: make(chan struct{})}
	exp.mu.Lock()
	exp.file.file = disk
	exp.mu.Unlock()

	sent := []ptrace.Traces{runTrace(1, 0)}
	require.NoError(t, traces.ConsumeTraces(t.Context(), sent[0]))
	<-disk.entered
	// The consumer hangs now; three more requests of 27 spans have room, as the
	// one in the consumer's hands counts too.
	for i := uint64(2); ; i++ {
		td := runTrace(i, i*2500)
		if err := traces.ConsumeTraces(t.Context(), td); err != nil {
			require.ErrorIs(t, err, exporterhelper.ErrQueueIsFull)
			break
		}
		sent = append(sent, td)
		require.Less(t, i, uint64(10))
	}
	assert.Greater(t, len(sent), 1)
	close(disk.released)
	require.NoError(t, traces.Shutdown(t.Context()))
	requireSpans(t, [][]traceEvent{readTrace(t, filepath.Join(cfg.Directory, "trace.json"))}, sent...)
}

// Shutdown writes what waits in the queue and in the buffer.
func TestShutdownWritesEverything(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Directory = t.TempDir()
	factory := NewFactory()
	traces, err := factory.CreateTraces(t.Context(), exportertest.NewNopSettings(metadata.Type), cfg)
	require.NoError(t, err)
	require.NoError(t, traces.Start(t.Context(), componenttest.NewNopHost()))
	sent := manyRuns(20)
	for _, td := range sent {
		require.NoError(t, traces.ConsumeTraces(t.Context(), td))
	}
	require.NoError(t, traces.Shutdown(t.Context()))
	events := readTrace(t, filepath.Join(cfg.Directory, "trace.json"))
	requireNoProblems(t, events)
	requireSpans(t, [][]traceEvent{events}, sent...)
}

// The input is the pipeline's, shared with other exporters.
func TestInputIsNotChanged(t *testing.T) {
	r := startExporter(t)
	td, same := runTrace(1, 0), runTrace(1, 0)
	td.MarkReadOnly()
	r.send(t, td)
	var marshaler ptrace.ProtoMarshaler
	got, err := marshaler.MarshalTraces(td)
	require.NoError(t, err)
	expected, err := marshaler.MarshalTraces(same)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(expected, got))
}

// The whole file, byte by byte. `go test -run TestGolden -update` writes it anew.
func TestGolden(t *testing.T) {
	r := startExporter(t)
	r.send(t, runTrace(1, 0), requestTrace(2, 0, [2]uint64{1, 1000}))
	r.tick()
	got, err := os.ReadFile(r.live())
	require.NoError(t, err)
	golden := filepath.Join("testdata", "golden", "run_and_request.json")
	if *update {
		require.NoError(t, os.WriteFile(golden, got, 0o600))
	}
	expected, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(expected), string(got))
}
