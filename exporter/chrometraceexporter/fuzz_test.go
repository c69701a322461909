// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// messy makes spans that agree on little: few ids, so that parents are missing,
// shared or in rings; times that cross, stand still, run backwards, overflow.
func messy(rnd *rand.Rand, n int) ptrace.Traces {
	td := ptrace.NewTraces()
	for n > 0 {
		resource := map[string]any{"service.name": fmt.Sprint("s", rnd.IntN(3))}
		switch rnd.IntN(4) {
		case 0:
			resource["process.pid"] = int64(rnd.IntN(4)) - 1
		case 1:
			resource["process.pid"] = "14"
		case 2:
			resource["process.pid"] = int64(1) << 40
		}
		ss := addResource(td, resource)
		for range min(n, 1+rnd.IntN(50)) {
			n--
			span := ss.Spans().AppendEmpty()
			span.SetName([]string{"a", "b", "", "\xff\x00\"", "atom.request"}[rnd.IntN(5)])
			span.SetTraceID(traceID(rnd.Uint64N(6)))
			span.SetSpanID(spanID(rnd.Uint64N(200)))
			span.SetParentSpanID(spanID(rnd.Uint64N(200)))
			start := base + rnd.Uint64N(2000)
			end := start + rnd.Uint64N(400)
			switch rnd.IntN(40) {
			case 0:
				start = 0
			case 1:
				end = start - 1
			case 2:
				end = 1<<63 + rnd.Uint64N(1<<60)
			case 3:
				end = start
			}
			span.SetStartTimestamp(pcommon.Timestamp(start))
			span.SetEndTimestamp(pcommon.Timestamp(end))
			span.SetKind(ptrace.SpanKind(rnd.IntN(7)))
			attrs := span.Attributes()
			if rnd.IntN(3) > 0 {
				attrs.PutInt("thread.id", int64(rnd.IntN(4)))
			}
			if rnd.IntN(2) > 0 {
				attrs.PutStr(semconv.Stage, []string{semconv.StageRun, semconv.StageLevelDispatch, "x"}[rnd.IntN(3)])
				attrs.PutStr(semconv.Clock, []string{semconv.ClockHost, semconv.ClockDevice}[rnd.IntN(2)])
				attrs.PutStr(semconv.Stitch, semconv.StitchTime)
				attrs.PutInt(attrSlotID, rnd.Int64N(30)-5)
			}
			if rnd.IntN(8) == 0 {
				attrs.PutEmptyMap("m").PutStr("k", "v")
				attrs.PutEmptyBytes("bytes").Append(1, 2, 255)
				attrs.PutEmpty("nothing")
				attrs.PutDouble("nan", func() float64 { zero := 0.0; return zero / zero }())
				attrs.PutStr("span_id", "mine")
			}
			for range rnd.IntN(3) {
				link := span.Links().AppendEmpty()
				link.SetTraceID(traceID(rnd.Uint64N(6)))
				link.SetSpanID(spanID(rnd.Uint64N(200)))
				link.Attributes().PutStr(semconv.PhaseLink, semconv.PhaseLinkHostRun)
				span.Events().AppendEmpty().SetTimestamp(pcommon.Timestamp(start + rnd.Uint64N(400)))
			}
		}
	}
	return td
}

// Whatever comes, each file obeys the rules, and every span is drawn or counted.
func FuzzMessySpans(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint8(seed*30), uint8(seed%3))
	}
	f.Fuzz(func(t *testing.T, seed uint64, size, slots uint8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		r := startExporter(t, func(c *Config) {
			c.Lanes.MaxSlots, c.Lanes.MaxTraces, c.Lanes.FlowMemory = 1+int(slots), 1+int(slots), 1+int(slots)
			c.Lanes.MaxThreads = 10
			c.Lanes.Copies = CopiesNest
		})
		spans := 0
		for range 3 {
			td := messy(rnd, 1+int(size))
			spans += td.SpanCount()
			r.send(t, td)
		}
		requireNoProblems(t, r.events(t))
		assert.EqualValues(t, spans, r.counter(t, "spans_written")+r.counter(t, "spans_dropped"))
	})
}

// Any request that decodes at all is drawn without a panic.
func FuzzDecodedRequests(f *testing.F) {
	var marshaler ptrace.ProtoMarshaler
	for _, td := range []ptrace.Traces{runTrace(1, 0), requestTrace(1, 0, [2]uint64{1, 1000})} {
		data, err := marshaler.MarshalTraces(td)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var unmarshaler ptrace.ProtoUnmarshaler
		td, err := unmarshaler.UnmarshalTraces(data)
		if err != nil {
			return
		}
		r := startExporter(t)
		r.send(t, td)
		requireNoProblems(t, r.events(t))
		assert.EqualValues(t, td.SpanCount(), r.counter(t, "spans_written")+r.counter(t, "spans_dropped"))
	})
}

func TestTenThousandMessySpans(t *testing.T) {
	r := startExporter(t, func(c *Config) { c.Rotation.MaxMegabytes, c.Rotation.MaxBackups = 1, 0 })
	td := messy(rand.New(rand.NewPCG(1, 2)), 10_000)
	r.send(t, td)
	r.tick()
	files := allFiles(t, r.dir)
	assert.Greater(t, len(files), 3, "one request fills several files")
	for _, path := range files {
		requireNoProblems(t, readTrace(t, path))
	}
	assert.EqualValues(t, 10_000, r.counter(t, "spans_written")+r.counter(t, "spans_dropped"))
}

// Parents in a ring, ten thousand of them, and a chain as deep.
func TestRingAndChain(t *testing.T) {
	const n = 10_000
	for name, last := range map[string]uint64{"ring": n, "chain": 0} {
		t.Run(name, func(t *testing.T) {
			r := startExporter(t)
			td := ptrace.NewTraces()
			ss := addResource(td, chip0Resource)
			for i := range uint64(n) {
				parent := i
				if i == 0 {
					parent = last
				}
				addSpan(ss, want{name: "x", trace: 1, id: i + 1, parent: parent, start: i, end: 3*n - i, attrs: map[string]any{"thread.id": int64(5)}})
			}
			r.send(t, td)
			events := r.events(t)
			requireNoProblems(t, events)
			requireSpans(t, [][]traceEvent{events}, td)
		})
	}
}

func TestDroppedSpans(t *testing.T) {
	r := startExporter(t)
	td := ptrace.NewTraces()
	ss := addResource(td, apiResource)
	for _, times := range [][2]uint64{{0, base}, {0, 0}, {base, base - 1}, {base, 0}, {base, 1 << 63}, {base, base}} {
		span := ss.Spans().AppendEmpty()
		span.SetStartTimestamp(pcommon.Timestamp(times[0]))
		span.SetEndTimestamp(pcommon.Timestamp(times[1]))
	}
	r.send(t, td)
	events := r.events(t)
	requireNoProblems(t, events)
	assert.EqualValues(t, 1, r.counter(t, "spans_written"))
	assert.EqualValues(t, 2, r.counter(t, "spans_dropped", dropNoStart))
	assert.EqualValues(t, 2, r.counter(t, "spans_dropped", dropNegative))
	assert.EqualValues(t, 1, r.counter(t, "spans_dropped", dropRange))
}

func TestAppendString(t *testing.T) {
	for _, test := range []struct {
		in    string
		limit int
		want  string
		cut   bool
	}{
		{"plain", 10, `"plain"`, false},
		{"a\"b\\c\n\r\t\x01\x7f/<&>", 99, "\"a\\\"b\\\\c\\n\\r\\t\\u0001\x7f/<&>\"", false},
		{"é\xff€\xe2\x82", 99, "\"é\ufffd€\ufffd\ufffd\"", false},
		{"€€€", 9, `"€€€"`, false},
		{"€€€", 8, `"€€…"`, true},
		{"€€€", 7, `"€€…"`, true},
		{"€€€", 6, `"€€…"`, true},
		{strings.Repeat("\xff", 9), 2, `"…"`, true},
		{"", 0, `""`, false},
	} {
		got, cut := appendString(nil, test.in, test.limit)
		assert.Equal(t, test.want, string(got), "%q", test.in)
		assert.Equal(t, test.cut, cut, "%q", test.in)
	}
}

func TestAppendMicros(t *testing.T) {
	for ns, want := range map[uint64]string{
		0: "0", 1: "0.001", 10: "0.010", 999: "0.999", 1000: "1", 1_001: "1.001", 1_100: "1.100",
		base: "1764459181123456.789", 1<<63 - 1: "9223372036854775.807",
	} {
		assert.Equal(t, want, string(appendMicros(nil, ns)))
	}
}

// While batches come in, the loop flushes and the file is read: nobody waits
// for ever, and what is read is complete.
func TestConcurrently(t *testing.T) {
	r := startExporter(t, func(c *Config) { c.FlushInterval = time.Millisecond })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range uint64(200) {
			if err := r.push(t.Context(), runTrace(i+1, i*2500)); err != nil {
				return
			}
		}
	}()
	for {
		data, err := os.ReadFile(r.live())
		require.NoError(t, err)
		_, _ = decodeOpen(data) // May fall into a write.
		select {
		case <-done:
			events := r.events(t)
			requireNoProblems(t, events)
			assert.EqualValues(t, 200*27, r.counter(t, "spans_written"))
			return
		default:
		}
	}
}

func TestStartFailsClearly(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Directory = "testdata/config.yaml"
	exp, err := newTraceExporter(cfg, componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	require.ErrorContains(t, exp.start(t.Context(), componenttest.NewNopHost()), "making the directory for trace files")
	require.ErrorIs(t, exp.push(t.Context(), runTrace(1, 0)), errNotStarted)
	require.NoError(t, exp.shutdown(t.Context()))
}
