// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIDsNeverChange fixes identifiers as literals: a change of the hash would
// fork every trace that is half written when the receiver is updated.
func TestIDsNeverChange(t *testing.T) {
	h := idHasher{host: "node-a"}
	trace := h.trace(domainInvocation, "dir", 42, 7, 1000, "")
	require.Equal(t, "664b76d56265ca51931351f64fb4a045", hex.EncodeToString(trace[:]))
	run := h.trace(domainRun, "dir", 42, 7, 1000, "")
	require.Equal(t, "601ca0e406eb97b1467d253754dc70c6", hex.EncodeToString(run[:]))
	single := h.trace(domainSingle, "dir", 42, 7, 1000, "ext.pypto.x")
	require.Equal(t, "a0bfe8355024a420297b7612db0d9379", hex.EncodeToString(single[:]))
	span := h.span(trace, spanKey{name: "chip.run", pid: 42, inv: 7, unitTS: 1000, ts: 1000, tid: 43})
	require.Equal(t, "1b679b83c3ea849a", hex.EncodeToString(span[:]))
}

// TestIDsTellApart: every part of an id's input matters, and none can be
// mistaken for another by concatenation.
func TestIDsTellApart(t *testing.T) {
	h := idHasher{host: "ab"}
	other := idHasher{host: "a"}
	traces := []TraceID{
		h.trace(domainInvocation, "s", 1, 2, 3, "n"),
		other.trace(domainInvocation, "bs", 1, 2, 3, "n"),
		h.trace(domainRun, "s", 1, 2, 3, "n"),
		h.trace(domainInvocation, "t", 1, 2, 3, "n"),
		h.trace(domainInvocation, "s", 2, 2, 3, "n"),
		h.trace(domainInvocation, "s", 1, 3, 3, "n"),
		h.trace(domainInvocation, "s", 1, 2, 4, "n"),
		h.trace(domainInvocation, "s", 1, 2, 3, "m"),
	}
	seen := map[TraceID]bool{}
	for _, id := range traces {
		require.False(t, seen[id])
		seen[id] = true
		require.False(t, id.IsZero())
	}
	base := spanKey{name: "n", pid: 1, inv: 2, unitTS: 3, ts: 4, tid: 5}
	keys := []spanKey{base}
	for _, change := range []func(*spanKey){
		func(k *spanKey) { k.name = "m" },
		func(k *spanKey) { k.device = true },
		func(k *spanKey) { k.pid = 9 },
		func(k *spanKey) { k.inv = 9 },
		func(k *spanKey) { k.unitTS = 9 },
		func(k *spanKey) { k.ts = 9 },
		func(k *spanKey) { k.tid = 9 },
		func(k *spanKey) { k.repeat = 1 },
	} {
		k := base
		change(&k)
		keys = append(keys, k)
	}
	spans := map[SpanID]bool{}
	for _, k := range keys {
		id := h.span(traces[0], k)
		require.False(t, spans[id], "%+v", k)
		require.False(t, id.IsZero())
		spans[id] = true
	}
	require.False(t, spans[h.span(traces[1], base)])
	require.True(t, TraceID{}.IsZero())
	require.True(t, SpanID{}.IsZero())
}

func TestParseTraceparent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	trace, span, ok := parseTraceparent([]byte(good))
	require.True(t, ok)
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", hex.EncodeToString(trace[:]))
	require.Equal(t, "b7ad6b7169203331", hex.EncodeToString(span[:]))
	_, _, ok = parseTraceparent([]byte("01" + good[2:] + "-future"))
	require.True(t, ok)
	for _, bad := range []string{
		"", good[:54], good + "-x", "01" + good[2:] + "x", "ff" + good[2:], "0g" + good[2:],
		"00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
	} {
		_, _, ok = parseTraceparent([]byte(bad))
		require.False(t, ok, bad)
	}
}
