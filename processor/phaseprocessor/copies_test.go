// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/phasetest"
)

func TestLinksAndCopiesAreBounded(t *testing.T) {
	b := newBench(t, func(cfg *Config) { cfg.Join.MaxLinks, cfg.Join.Embed = 4, 3 })
	for i := range uint64(20) {
		dur := int64(1000 * (1 + (i*7)%20))
		b.send(t, host("h1", 1, chip(i+1, t0+71*ms+int64(i)*4*ms, dur)))
	}
	decode, _ := joined(t, b, nil)
	require.EqualValues(t, 20, attr(decode, "phase.host_runs"))
	// Lengths are 1 + 7i mod 20: 20 at i = 17, 19 at i = 14, 18 at i = 11.
	require.Equal(t, []uint64{1, 20, 18, 15}, links(decode))
	var copied []any
	for _, s := range b.sink.named("chip.run") {
		if isSet(s, "phase.copy") {
			copied = append(copied, attr(s, "strace.inv"))
		}
	}
	require.Equal(t, []any{int64(18), int64(15), int64(12)}, copied)

	b = newBench(t, func(cfg *Config) { cfg.Join.MaxLinks, cfg.Join.Embed = 0, 0 })
	b.send(t, host("h1", 1, chip(1, t0+80*ms, 10*ms)))
	decode, _ = joined(t, b, nil)
	require.EqualValues(t, 1, attr(decode, "phase.host_runs"))
	require.Zero(t, decode.Links().Len())
	require.Equal(t, 13+5, b.sink.count())
}

// Copies: the whole tree, names, times and attributes, with ids of their own
// that are the same each time, and other ones below another phase.
func TestCopies(t *testing.T) {
	ids := map[string]bool{}
	for range 2 {
		b := newBench(t, nil)
		b.send(t, host("h1", 1, chip(1, t0+60*ms, 20*ms))) // in both phases
		originals := map[string]ptrace.Span{}
		for _, s := range phasetest.Spans(b.sink.all()...) {
			originals[s.SpanID().String()] = s
		}
		decode, _ := joined(t, b, nil)
		prefill := one(t, b.sink.named("prefill_forward"))
		copies := map[string]ptrace.Span{}
		n := 0
		for _, s := range phasetest.Spans(b.sink.all()...) {
			if isSet(s, "phase.copy") {
				n++
				copies[s.SpanID().String()] = s
				ids[s.SpanID().String()] = true
			}
		}
		require.Equal(t, 26, n)
		require.Len(t, copies, 26)
		for _, s := range copies {
			o, ok := originals[attr(s, "phase.copy_of.span_id").(string)]
			require.True(t, ok)
			require.Equal(t, o.TraceID().String(), attr(s, "phase.copy_of.trace_id"))
			require.Equal(t, decode.TraceID(), s.TraceID())
			require.Equal(t, o.Name(), s.Name())
			require.Equal(t, o.StartTimestamp(), s.StartTimestamp())
			require.Equal(t, o.EndTimestamp(), s.EndTimestamp())
			for k, v := range o.Attributes().All() {
				got, _ := s.Attributes().Get(k)
				require.Equal(t, v.AsRaw(), got.AsRaw(), k)
			}
			if o.Name() == "chip.run" {
				require.Contains(t, []any{prefill.SpanID(), decode.SpanID()}, s.ParentSpanID())
				continue
			}
			parent, ok := copies[s.ParentSpanID().String()]
			require.True(t, ok)
			require.Equal(t, o.ParentSpanID().String(), attr(parent, "phase.copy_of.span_id"))
		}
	}
	require.Len(t, ids, 26)
}
