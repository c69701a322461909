// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pairs reads attribute text as key, value, key, value ...
func pairs(text string) []string {
	all := []string{}
	for it := NewAttrIter([]byte(text)); ; {
		k, v, ok := it.Next()
		if !ok {
			return all
		}
		all = append(all, string(k), string(v))
	}
}

func TestAttrIter(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                     {},
		"   ":                                  {},
		"k=v":                                  {"k", "v"},
		"k=":                                   {"k", ""},
		"a=1 b=2":                              {"a", "1", "b", "2"},
		"a=1  b=2 ":                            {"a", "1", "b", "2"},
		"msg=a b c d=1":                        {"msg", "a b c", "d", "1"},
		"msg=a  b":                             {"msg", "a  b"},
		"msg=a=b c":                            {"msg", "a=b c"},
		"url=http://x/?q=1 n=2":                {"url", "http://x/?q=1", "n", "2"},
		"word":                                 {"word", ""},
		"word k=v":                             {"word", "", "k", "v"},
		"=x k=v":                               {"=x", "", "k", "v"},
		"k=v =x":                               {"k", "v", "=x", ""},
		"r0=self/slot0 r1=peer/im~":            {"r0", "self/slot0", "r1", "peer/im~"},
		"msg=a b%5Bc%5D":                       {"msg", "a b%5Bc%5D"},
		"k=v\tw":                               {"k", "v\tw"},
		"clk=dev dev_id=3 dev_cnt_hz=50000000": {"clk", "dev", "dev_id", "3", "dev_cnt_hz", "50000000"},
	} {
		assert.Equal(t, want, pairs(text), "%q", text)
	}
}

func TestAttr(t *testing.T) {
	v, ok := Attr([]byte("a=1 b=x y c=3"), "b")
	require.True(t, ok)
	require.Equal(t, "x y", string(v))
	_, ok = Attr([]byte("a=1 b=x y c=3"), "y")
	require.False(t, ok)
}

func TestAppendDecoded(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"plain":                            "plain",
		"with%20space%5Bx%5D%3D%25%09q%0A": "with space[x]=%\tq\n",
		"%E4%B8%AD":                        "中",
		"%":                                "%",
		"%2":                               "%2",
		"%2g":                              "%2g",
		"%5b":                              "%5b", // the grammar writes upper case
		"%%41":                             "%A",
		"100%~":                            "100%~",
		"%00":                              "\x00",
		"ext.app.with%20space":             "ext.app.with space",
	} {
		require.Equal(t, want, string(AppendDecoded(nil, []byte(text))), "%q", text)
	}
	require.Equal(t, "ab", string(AppendDecoded([]byte("a"), []byte("b"))))
}

func TestParseInt(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "-1": -1, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		got, ok := ParseInt([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "-", "+1", "007", "-0", "00", "1e3", " 1", "1 ", "9223372036854775808", "-9223372036854775809", "99999999999999999999", "0x1", "1_000"} {
		_, ok := ParseInt([]byte(text))
		require.False(t, ok, text)
	}
}

func TestParseIdentity(t *testing.T) {
	id := ParseIdentity([]byte("run_id=18446744073709551615 task_slot=3 group_index=-1 worker_id=1 dispatch_id=9 endpoint_kind=local_mailbox slot_id=1 generation=12"))
	require.Equal(t, Identity{
		RunID: math.MaxUint64, DispatchID: 9, Generation: 12, TaskSlot: 3, WorkerID: 1, SlotID: 1,
		Has: HasRunID | HasDispatchID | HasGeneration | HasTaskSlot | HasWorkerID | HasSlotID,
	}, id)
	require.Equal(t, Identity{}, ParseIdentity([]byte("run_id=x worker_id=1.5 dispatch_id=-1 slot_id= generation=1a task_slot=99999999999999999999")))
}

// FuzzAttrs reads any text: pairs cover it, decoding what an emitter encodes
// gives back what it had.
func FuzzAttrs(f *testing.F) {
	for _, seed := range []string{"", "a=1 b=2", "msg=a b%5Bc%5D%25d e=f", "=x word k=v", "%E4%B8%AD", "k=v~", "a==b", "%%%", "k=100%"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n := 0
		for it := NewAttrIter(text); ; n++ {
			k, v, ok := it.Next()
			if !ok {
				break
			}
			require.NotEmpty(t, k)
			require.LessOrEqual(t, len(k)+len(v), len(text))
			first, has := Attr(text, string(k))
			require.True(t, has)
			if n == 0 {
				require.Equal(t, string(v), string(first))
			}
		}
		require.LessOrEqual(t, n, len(text))
		ParseIdentity(text)
		require.Equal(t, string(text), string(AppendDecoded(nil, encode(text))))
		if v, ok := ParseInt(text); ok {
			require.Equal(t, string(text), strconv.FormatInt(v, 10))
		}
	})
}

// encode writes text as the runtime does: %XX for what the grammar bars.
func encode(text []byte) []byte {
	const digits = "0123456789ABCDEF"
	var out []byte
	for _, c := range text {
		if c < 0x20 || c > 0x7e || c == '%' || c == '[' || c == ']' {
			out = append(out, '%', digits[c>>4], digits[c&15])
			continue
		}
		out = append(out, c)
	}
	return out
}
