// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/internal/stracepdata/marker"
	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
)

// tail reads text as fileconsumer reads a growing file: at each of the sizes
// one pass with a new scanner from where the last token of the pass before
// ended, or from the end of the pass where it brought any token. Reads return
// as much as chunk says.
func tail(t testing.TB, format container.Format, text []byte, sizes []int, buffer int, chunk func(io.Reader) io.Reader) [][]byte {
	t.Helper()
	var tokens [][]byte
	pos := 0
	splitFunc := Func(format)
	for _, size := range sizes {
		at, emitted, brought := pos, pos, false
		s := bufio.NewScanner(chunk(bytes.NewReader(text[pos:size])))
		s.Buffer(make([]byte, 0, buffer), 1<<20)
		s.Split(func(data []byte, atEOF bool) (int, []byte, error) {
			n, token, err := splitFunc(data, atEOF)
			at += n
			return n, token, err
		})
		for s.Scan() {
			tokens = append(tokens, bytes.Clone(s.Bytes()))
			emitted, brought = at, true
		}
		require.NoError(t, s.Err())
		if pos = emitted; brought {
			pos = at
		}
	}
	return tokens
}

func asOne(r io.Reader) io.Reader { return r }

// markerLines lists the lines that hold a marker, in order.
func markerLines(texts ...[]byte) []string {
	var lines []string
	for _, text := range texts {
		for line := range bytes.Lines(text) {
			if marker.First(line) >= 0 {
				lines = append(lines, string(line))
			}
		}
	}
	return lines
}

// generator writes text line by line.
type generator struct {
	rnd *rand.Rand
	n   int
	b   []byte
}

func (g *generator) record() string {
	g.n++
	s := fmt.Sprintf("[mono_ns=%d][T0x7f][TIMING] emit_host_span: [STRACE] v=1 pid=7 tid=7 inv=1 hid=ab depth=1 name=chip.run.bind ts=%d dur=%d ", g.n*10, g.n*10, g.n)
	if g.rnd.IntN(2) == 0 {
		s += "k=" + strings.Repeat("v", g.rnd.IntN(180))
	}
	return s
}

func (g *generator) line() {
	switch g.rnd.IntN(12) {
	case 0:
		g.b = append(g.b, '\n')
	case 1:
		g.b = append(g.b, "a\x00b\x00\x00[\n"...)
	case 2, 3, 4:
		g.b = append(g.b, g.record()...)
		g.b = append(g.b, '\n')
	case 5:
		g.b = append(g.b, g.record()+g.record()+"\r\n"...)
	case 6:
		g.b = append(g.b, "[chip_process pid=7 dev=1] ready\n"...)
	case 7:
		g.b = append(g.b, strings.Repeat("[INFO][x] noise ", g.rnd.IntN(2000))+"\n"...)
	case 8:
		g.b = append(g.b, strings.Repeat("y", g.rnd.IntN(60_000))+"\n"...)
	default:
		g.b = append(g.b, strings.Repeat("plain ", g.rnd.IntN(40))+"\n"...)
	}
}

// TestEveryMarkerLineOnce: whatever the chunks of reading and the sizes at
// which a growing file is looked at, each marker line arrives exactly once, in
// order and whole.
func TestEveryMarkerLineOnce(t *testing.T) {
	for seed := range uint64(150) {
		g := &generator{rnd: rand.New(rand.NewPCG(seed, 1))}
		for range g.rnd.IntN(60) {
			g.line()
		}
		sizes := []int{}
		for at := 0; at < len(g.b); at = min(len(g.b), at+1+g.rnd.IntN(50_000)) {
			sizes = append(sizes, at)
		}
		sizes = append(sizes, len(g.b), len(g.b))
		chunk := [...]func(io.Reader) io.Reader{asOne, iotest.HalfReader, iotest.DataErrReader}[g.rnd.IntN(3)]
		if len(g.b) < 20_000 {
			chunk = iotest.OneByteReader
		}
		tokens := tail(t, container.Auto, g.b, sizes, 16+g.rnd.IntN(128<<10), chunk)
		require.Equal(t, markerLines(g.b), markerLines(tokens...), "seed %d", seed)
		for _, token := range tokens {
			require.True(t, len(token) == 0 || token[len(token)-1] == '\n', "a token is whole lines")
		}
	}
}

// TestUnfinishedLineWaits: the last line arrives only with its line feed.
func TestUnfinishedLineWaits(t *testing.T) {
	text := []byte("[STRACE] v=1 pid=1\n[STRACE] v=1 pid=2\n")
	for cut := range len(text) {
		want := markerLines(text[:bytes.LastIndexByte(text[:cut], '\n')+1])
		assert.Equal(t, want, markerLines(tail(t, container.Auto, text, []int{cut}, 64, asOne)...), "cut %d", cut)
	}
}

// TestNeighboursShareAToken: what is read in one go costs few tokens.
func TestNeighboursShareAToken(t *testing.T) {
	line := "[STRACE] v=1 pid=1 tid=1 inv=1 hid=0 depth=0 name=chip.run ts=1 dur=1 \n"
	text := []byte(strings.Repeat(line, 1000))
	tokens := tail(t, container.Raw, text, []int{len(text)}, 1<<20, asOne)
	assert.Len(t, tokens, 9) // 72 kB in blocks of a little more than 8 KiB
	assert.Equal(t, text, bytes.Join(tokens, nil))
}

// record is what a scan finds, without what a cut may change.
type record struct {
	name          string
	ts, dur, mono int64
}

func records(t testing.TB, ended bool, texts ...[]byte) []record {
	t.Helper()
	s := strace.NewScanner(strace.NewNames())
	var found []record
	for _, text := range texts {
		for line := range bytes.Lines(text) {
			s.Reset(bytes.TrimSuffix(line, []byte("\n")), ended || bytes.HasSuffix(line, []byte("\n")))
			for kind := s.Next(); kind != strace.KindNone; kind = s.Next() {
				if kind == strace.KindRecord {
					found = append(found, record{s.Record.Name.Text, s.Record.TS, s.Record.Dur, s.Record.Mono})
				}
			}
		}
	}
	return found
}

// TestLongLines: records in a line of megabytes without line feed are all
// found, once, with their prefixes; what is between them costs no memory.
func TestLongLines(t *testing.T) {
	for seed := range uint64(40) {
		g := &generator{rnd: rand.New(rand.NewPCG(seed, 2))}
		for range 30 {
			g.b = append(g.b, strings.Repeat("#=- ", g.rnd.IntN(60_000))+" "...)
			g.b = append(g.b, g.record()+" |"...)
		}
		g.b = append(g.b, strings.Repeat(".", 70_000)...)
		want := records(t, false, g.b)
		require.Len(t, want, 30)
		tokens := tail(t, container.Raw, g.b, []int{len(g.b) / 3, len(g.b)}, 128<<10, asOne)
		require.Equal(t, want, records(t, false, tokens...), "seed %d", seed)
		for _, token := range tokens {
			require.LessOrEqual(t, len(token), 1<<18)
		}
	}
}

func TestFiveMegabytesWithoutLineFeed(t *testing.T) {
	junk := bytes.Repeat([]byte{'z', 0}, 5<<19)
	last := "\n[STRACE] v=1 pid=1 tid=1 inv=1 hid=0 depth=0 name=chip.run ts=1 dur=1 \n"
	text := append(junk, last...)
	tokens := tail(t, container.Auto, text, []int{1 << 20, 3 << 20, len(text)}, 128<<10, asOne)
	assert.Equal(t, []record{{"chip.run", 1, 1, 0}}, records(t, false, tokens...))
	for _, token := range tokens {
		assert.Less(t, len(token), 1<<10)
	}
}

// TestContainerPieces: no line that is a piece, or may complete one, is
// skipped.
func TestContainerPieces(t *testing.T) {
	const stamp = "2026-01-01T00:00:00.000000001Z "
	noise := strings.Repeat(stamp+"stdout F noise\n", 3000)
	text := []byte(stamp + "stdout P head [STRA\n" + noise[:15000-15000%len(stamp+"stdout F noise\n")] +
		stamp + "stderr F other\n" + stamp + "stderr P [mono_ns=1][T0x1][TIMING] f: [STR\n" + noise + stamp + "stderr F ACE] v=1\n" + noise)
	var got []string
	for _, token := range tail(t, container.Auto, text, []int{100, 200, 20_000, len(text)}, 128<<10, asOne) {
		for line := range bytes.Lines(token) {
			got = append(got, string(line))
		}
	}
	assert.Equal(t, stamp+"stdout P head [STRA\n", got[0])
	assert.Equal(t, stamp+"stdout F noise\n", got[1], "the line that completes the piece")
	assert.Contains(t, got, stamp+"stderr P [mono_ns=1][T0x1][TIMING] f: [STR\n")
	assert.Contains(t, got, stamp+"stderr F ACE] v=1\n")
	assert.Less(t, len(got), 3000, "most noise is skipped")
}

func TestNoiseIsSkipped(t *testing.T) {
	noise := []byte(strings.Repeat("[mono_ns=1][T0x1][INFO] f: served a request [200]\n", 10_000))
	tokens := tail(t, container.Auto, noise, []int{len(noise)}, 128<<10, asOne)
	for _, token := range tokens {
		assert.Empty(t, token, "only progress")
	}
	assert.NotEmpty(t, tokens, "progress moves the offset")
	assert.LessOrEqual(t, len(tokens), len(noise)/idleBytes+1)
}

func FuzzSplit(f *testing.F) {
	f.Add([]byte("[STRACE] v=1 pid=1\nnoise\n[STRACE"), uint16(5), uint16(40), uint8(0))
	f.Add([]byte("2026-01-01T00:00:00.1Z stderr P [STRA\n2026-01-01T00:00:00.1Z stderr F CE] v=1\n"), uint16(30), uint16(16), uint8(2))
	f.Add([]byte("{\"log\":\"[STRACE] v=1\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-01T00:00:00Z\"}\n"), uint16(9), uint16(100), uint8(3))
	f.Add([]byte("\x00[chip_process pid=1 dev=2] ready\r\n\n\n"), uint16(1), uint16(16), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, step, buffer uint16, which uint8) {
		format := container.Format(which % 4)
		var sizes []int
		for at := 0; at < len(text); at += max(1+int(step), len(text)/32) {
			sizes = append(sizes, at)
		}
		sizes = append(sizes, len(text))
		tokens := tail(t, format, text, sizes, 16+int(buffer), iotest.HalfReader)
		whole := text[:bytes.LastIndexByte(text, '\n')+1]
		require.Equal(t, markerLines(whole), markerLines(tokens...))
	})
}
