// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package container

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// at is 2026-11-29T22:06:28.255626001Z.
const at = int64(1795989988255626001)

func TestUnwrap(t *testing.T) {
	require.Equal(t, at, time.Date(2026, 11, 29, 22, 6, 28, 255626001, time.UTC).UnixNano())
	for _, tt := range []struct {
		name   string
		format Format
		text   string
		want   Line
		ok     bool
	}{
		{"cri full", Auto, "2026-11-29T22:06:28.255626001Z stderr F [STRACE] v=1", Line{Text: []byte("[STRACE] v=1"), Time: at, Stream: Stderr}, true},
		{"cri piece keeps its blanks", Auto, "2026-11-29T22:06:28.255626001Z stdout P  x ", Line{Text: []byte(" x "), Time: at, Partial: true}, true},
		{"cri zone", CRI, "2026-11-30T06:06:28.255626001+08:00 stdout F x", Line{Text: []byte("x"), Time: at}, true},
		{"cri seconds only", CRI, "2026-11-29T22:06:28Z stdout F x", Line{Text: []byte("x"), Time: at - 255626001}, true},
		{"cri empty text", CRI, "2026-11-29T22:06:28.255626001Z stdout F ", Line{Text: []byte{}, Time: at}, true},
		{"cri without text", CRI, "2026-11-29T22:06:28.255626001Z stdout F", Line{Text: []byte{}, Time: at}, true},
		{"cri bad day has no time", CRI, "2026-02-31T22:06:28Z stdout F x", Line{Text: []byte("x")}, true},
		{"cri unknown stream", CRI, "2026-11-29T22:06:28Z stdlog F x", Line{}, false},
		{"cri unknown tag", CRI, "2026-11-29T22:06:28Z stdout X x", Line{}, false},
		{"cri only a time", CRI, "2026-11-29T22:06:28.255626001Z", Line{}, false},
		{"cri demanded, raw given", CRI, "[STRACE] v=1", Line{}, false},
		{"an application's own time is no dress", Auto, "2026-11-29T22:06:28 INFO up [STRACE] v=1", Line{Text: []byte("2026-11-29T22:06:28 INFO up [STRACE] v=1")}, true},
		{"raw takes everything", Raw, "2026-11-29T22:06:28Z stdout F x", Line{Text: []byte("2026-11-29T22:06:28Z stdout F x")}, true},
		{"docker", Auto, `{"log":"a \"b\" [x]\n","stream":"stderr","time":"2026-11-29T22:06:28.255626001Z"}`, Line{Text: []byte(`a "b" [x]`), Time: at, Stream: Stderr}, true},
		{"docker piece", Docker, `{"log":"abc","stream":"stdout","time":"2026-11-29T22:06:28.255626001Z"}`, Line{Text: []byte("abc"), Time: at, Partial: true}, true},
		{"docker with attrs", Docker, `{"log":"abc\n","stream":"stdout","attrs":{"tag":"x"},"time":"2026-11-29T22:06:28.255626001Z"}`, Line{Text: []byte("abc"), Time: at}, true},
		{"docker without time", Docker, `{"log":"abc\n","stream":"stdout"}`, Line{Text: []byte("abc")}, true},
		{"docker cut", Docker, `{"log":"abc\n","str`, Line{}, false},
		{"docker cut, any format", Auto, `{"log":"abc\n","str`, Line{Text: []byte(`{"log":"abc\n","str`)}, true},
		{"docker demanded, cri given", Docker, "2026-11-29T22:06:28Z stdout F x", Line{}, false},
		{"empty", Auto, "", Line{Text: []byte{}}, true},
		{"empty, format demanded", CRI, "", Line{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			line, ok := tt.format.Unwrap([]byte(tt.text))
			assert.Equal(t, tt.ok, ok)
			assert.Equal(t, string(tt.want.Text), string(line.Text))
			tt.want.Text, line.Text = nil, nil
			assert.Equal(t, tt.want, line)
		})
	}
}

func TestShape(t *testing.T) {
	for _, tt := range []struct {
		text             string
		dressed, partial bool
		stream           Stream
	}{
		{"2026-11-29T22:06:28Z stdout F x", true, false, Stdout},
		{"2026-11-29T22:06:28Z stderr P x", true, true, Stderr},
		{`{"log":"x\n","stream":"stderr","time":"t"}`, true, false, Stderr},
		{`{"log":"x","stream":"stdout","time":"t"}`, true, true, Stdout},
		{`{"log":"","stream":"stdout","time":"t"}`, true, true, Stdout},
		{`{"log":"\",\"stream\":\"stderr\"\n","stream":"stdout","time":"t"}`, true, false, Stdout},
		{"[STRACE] v=1", false, false, Stdout},
		{"", false, false, Stdout},
	} {
		assert.Equal(t, tt.dressed, Auto.Container([]byte(tt.text)), tt.text)
		assert.Equal(t, tt.partial, Partial([]byte(tt.text)), tt.text)
		assert.Equal(t, tt.stream, StreamOf([]byte(tt.text)), tt.text)
	}
	assert.True(t, CRI.Container(nil))
	assert.False(t, Raw.Container([]byte("2026-11-29T22:06:28Z stdout F x")))
	assert.True(t, AnyPartial([]byte("x\n2026-11-29T22:06:28Z stderr P x\ny\n")))
	assert.False(t, AnyPartial([]byte("x\n\ny\n")))
}

func add(j *Joiner, stream Stream, partial bool, text string) (string, bool, bool) {
	out, ready, ended := j.Add(&Line{Text: []byte(text), Stream: stream, Partial: partial})
	return string(out), ready, ended
}

func TestJoiner(t *testing.T) {
	var j Joiner
	text, ready, ended := add(&j, Stdout, false, "whole")
	assert.True(t, ready && ended)
	assert.Equal(t, "whole", text)

	_, ready, _ = add(&j, Stdout, true, "a ")
	assert.False(t, ready)
	assert.True(t, j.Pending(Stdout))
	assert.False(t, j.Pending(Stderr))
	text, ready, _ = add(&j, Stderr, false, "other")
	assert.True(t, ready, "the other stream goes its own way")
	assert.Equal(t, "other", text)
	_, ready, _ = add(&j, Stdout, true, "b")
	assert.False(t, ready)
	text, ready, ended = add(&j, Stdout, false, " c")
	assert.True(t, ready && ended)
	assert.Equal(t, "a b c", text)
	assert.False(t, j.Pending(Stdout))
}

// TestJoinerOverlong: a line without end is handed out in parts that cut no
// record, and memory stays bounded.
func TestJoinerOverlong(t *testing.T) {
	record := "[mono_ns=5][T0x1][TIMING] f: [STRACE] v=1 pid=1 tid=1 inv=1 hid=0 depth=0 name=chip.run ts=1 dur=1 k=v |"
	line := strings.Repeat(strings.Repeat("=", 50_000)+record, 10)
	var j Joiner
	var parts []string
	for i := 0; i < len(line); i += 16 << 10 {
		text, ready, ended := add(&j, Stderr, true, line[i:min(len(line), i+16<<10)])
		require.False(t, ended)
		if ready {
			parts = append(parts, text)
		}
		require.LessOrEqual(t, len(j.pending[Stderr]), MaxJoined)
	}
	last, ready, ended := add(&j, Stderr, false, "end")
	require.True(t, ready && ended)
	parts = append(parts, last)
	assert.Equal(t, line+"end", strings.Join(parts, ""), "nothing is lost")
	whole := 0
	for _, p := range parts {
		whole += strings.Count(p, record)
	}
	assert.Equal(t, 10, whole, "no record is cut")
}

func TestJoinerResume(t *testing.T) {
	var a, b Joiner
	add(&a, Stderr, true, "[STRA")
	b.Resume(a.Pieces())
	add(&a, Stderr, false, "changed")
	text, ready, _ := add(&b, Stderr, false, "CE]")
	assert.True(t, ready)
	assert.Equal(t, "[STRACE]", text)
}

func TestIdentity(t *testing.T) {
	id64 := strings.Repeat("0123456789abcdef", 4)
	for _, tt := range []struct {
		path string
		want Identity
		key  string
	}{
		{
			"/var/log/pods/serving_atom-0_6f1c-2e/engine/3.log",
			Identity{Namespace: "serving", Pod: "atom-0", PodUID: "6f1c-2e", Container: "engine", RestartCount: "3"},
			"container:serving/atom-0/6f1c-2e/engine/3/",
		},
		{
			"/var/log/pods/serving_atom-0.a_6f1c-2e/engine/0.log.20260101-000000.gz",
			Identity{Namespace: "serving", Pod: "atom-0.a", PodUID: "6f1c-2e", Container: "engine", RestartCount: "0"},
			"container:serving/atom-0.a/6f1c-2e/engine/0/",
		},
		{
			"/var/log/containers/atom-0_serving_engine-" + id64 + ".log",
			Identity{Namespace: "serving", Pod: "atom-0", Container: "engine", ContainerID: id64},
			"container:serving/atom-0//engine//" + id64,
		},
		{
			"/var/lib/docker/containers/" + id64 + "/" + id64 + "-json.log.1",
			Identity{ContainerID: id64},
			"container://///" + id64,
		},
		{"/var/lib/docker/containers/" + id64 + "/" + strings.ToUpper(id64) + "-json.log", Identity{}, "dir:/var/lib/docker/containers/" + id64},
		{"/logs/host.17.log", Identity{}, "dir:/logs"},
		{"/logs/pods/a_b/0.log", Identity{}, "dir:/logs/pods/a_b"},
		{"host.log", Identity{}, "dir:."},
	} {
		t.Run(tt.path, func(t *testing.T) {
			id, ok := IdentityOf(tt.path)
			assert.Equal(t, tt.want, id)
			assert.Equal(t, tt.want != Identity{}, ok)
			assert.Equal(t, tt.key, ScopeKey(tt.path))
			back, ok := IdentityOfScope(tt.key)
			assert.Equal(t, tt.want, back, "the key holds all the path said")
			assert.Equal(t, tt.want != Identity{}, ok)
		})
	}
	_, ok := IdentityOfScope("container:a/b")
	assert.False(t, ok)
}

// FuzzUnwrap checks the dress against its own maker: what a runtime wraps
// comes out again, and nothing makes it panic or grow.
func FuzzUnwrap(f *testing.F) {
	f.Add("[STRACE] v=1 pid=1", uint8(0), at)
	f.Add("", uint8(3), int64(0))
	f.Add("2026-01-01T00:00:00Z stdout P x", uint8(1), int64(1))
	f.Add(`{"log":"x","stream":"stdout","time":""}`, uint8(2), int64(-1))
	f.Add("a\x00\xff\"\\u", uint8(7), int64(1e18))
	f.Fuzz(func(t *testing.T, text string, how uint8, wall int64) {
		for _, format := range []Format{Auto, Raw, CRI, Docker} {
			line, ok := format.Unwrap([]byte(text))
			if ok && format != Docker && format != Auto {
				require.LessOrEqual(t, len(line.Text), len(text))
			}
			_ = Partial([]byte(text))
			_ = StreamOf([]byte(text))
		}
		text = strings.ToValidUTF8(strings.ReplaceAll(text, "\n", " "), "?")
		wall = max(0, min(wall, 1<<61))
		stamp := time.Unix(0, wall).UTC().Format(time.RFC3339Nano)
		stream, partial := Stream(how&1), how&2 != 0
		word := [...]string{"stdout", "stderr"}[stream]

		tag := " F "
		if partial {
			tag = " P "
		}
		line, ok := Auto.Unwrap([]byte(stamp + " " + word + tag + text))
		require.True(t, ok)
		require.Equal(t, text, string(line.Text))
		require.Equal(t, Line{Text: line.Text, Time: wall, Stream: stream, Partial: partial}, line)

		log := text
		if !partial {
			log += "\n"
		}
		quoted, err := json.Marshal(log)
		require.NoError(t, err)
		dressed := []byte(`{"log":` + string(quoted) + `,"stream":"` + word + `","time":"` + stamp + `"}`)
		line, ok = Docker.Unwrap(dressed)
		require.True(t, ok)
		require.Equal(t, text, string(line.Text))
		require.Equal(t, stream, line.Stream)
		require.Equal(t, partial, line.Partial)
		require.Equal(t, partial, Partial(dressed))
		require.Equal(t, stream, StreamOf(dressed))
	})
}
