// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAppendString(t *testing.T) {
	for _, text := range []string{"", "chip.run", `a"b\c`, "tab\tline\nnul\x00", "中文", "\u2028"} {
		var got string
		require.NoError(t, json.Unmarshal(appendString(nil, text), &got))
		assert.Equal(t, text, got)
		require.NoError(t, json.Unmarshal(appendString(nil, []byte(text)), &got))
		assert.Equal(t, text, got)
	}
	assert.Equal(t, "\"a\uFFFDb\uFFFD\uFFFD\"", string(appendString(nil, "a\xffb\xe4\xb8")))
}

func TestAppendMicros(t *testing.T) {
	for ns, want := range map[int64]string{0: "0.000", 7: "0.007", 1500: "1.500", 680697166973: "680697166.973", -1001: "-1.001"} {
		assert.Equal(t, want, string(appendMicros(nil, ns)))
	}
}

func TestAppendIntKeepsWhatDoublesLose(t *testing.T) {
	assert.Equal(t, "9007199254740992", string(appendInt(nil, 1<<53)))
	assert.Equal(t, `"9007199254740993"`, string(appendInt(nil, 1<<53+1)))
	assert.Equal(t, `"-9223372036854775808"`, string(appendInt(nil, math.MinInt64)))
	assert.Equal(t, `"18446744073709551615"`, string(appendUint(nil, math.MaxUint64)))
}

func TestWallClock(t *testing.T) {
	var w wallClock
	const want = `,"wall_ts_ns":"1795989919796251777","wall_time":"2026-11-29T22:05:19.796251777Z"`
	assert.Equal(t, want, string(w.appendArgs(nil, 1795989919796251777)))
	assert.Equal(t, `,"wall_ts_ns":"1795989919000000001","wall_time":"2026-11-29T22:05:19.000000001Z"`, string(w.appendArgs(nil, 1795989919000000001)))
	assert.Equal(t, `,"wall_ts_ns":"1795989920000000000","wall_time":"2026-11-29T22:05:20.000000000Z"`, string(w.appendArgs(nil, 1795989920000000000)))
}

func TestAppendHID(t *testing.T) {
	assert.Equal(t, `"0"`, string(appendHID(nil, 0, 1)))
	assert.Equal(t, `"00ab"`, string(appendHID(nil, 0xab, 4)))
	assert.Equal(t, `"8f3a11c07be2d945"`, string(appendHID(nil, 0x8f3a11c07be2d945, 16)))
}

func TestAppendAttrs(t *testing.T) {
	var scratch []byte
	b := appendAttrs([]byte(`{"x":1`), []byte("run_id=7 msg=a b%5Bc inv=9 run_id=8 big=9007199254740993 flag"), false, &scratch)
	var got map[string]any
	require.NoError(t, json.Unmarshal(append(b, '}'), &got))
	assert.Equal(t, map[string]any{"x": 1.0, "run_id": 7.0, "msg": "a b[c", "attr.inv": 9.0, "big": "9007199254740993 flag"}, got)
	b = appendAttrs([]byte(`{"x":1`), []byte("p=50%25"), true, &scratch)
	require.NoError(t, json.Unmarshal(append(b, '}'), &got))
	assert.Equal(t, "50%25", got["p"], "verbatim generations do not encode")
}
