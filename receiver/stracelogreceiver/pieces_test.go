// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"

	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/metadatatest"
)

// dresser wraps lines of two streams as a container runtime does, cut into
// pieces.
type dresser struct {
	rnd    *rand.Rand
	docker bool
	cut    int
	b      bytes.Buffer
}

func (d *dresser) piece(stream, text string, whole bool) {
	if d.docker {
		if whole {
			text += "\n"
		}
		quoted, err := json.Marshal(text)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&d.b, `{"log":%s,"stream":%q,"time":"2026-01-02T03:04:05.5Z"}`+"\n", quoted, stream)
		return
	}
	tag := "P"
	if whole {
		tag = "F"
	}
	d.b.WriteString("2026-01-02T03:04:05.5Z " + stream + " " + tag + " " + text + "\n")
}

// lines writes the streams' lines, their pieces mixed at random.
func (d *dresser) lines(streams map[string][]string) {
	names := []string{"stdout", "stderr"}
	for len(streams["stdout"])+len(streams["stderr"]) > 0 {
		stream := names[d.rnd.IntN(2)]
		if len(streams[stream]) == 0 {
			continue
		}
		line := streams[stream][0]
		if len(line) <= d.cut {
			d.piece(stream, line, true)
			streams[stream] = streams[stream][1:]
			continue
		}
		d.piece(stream, line[:d.cut], false)
		streams[stream][0] = line[d.cut:]
	}
}

// TestPiecesOfContainerLogs: however a container runtime cuts lines and mixes
// its streams, every record is found once.
func TestPiecesOfContainerLogs(t *testing.T) {
	for seed := range uint64(60) {
		d := &dresser{rnd: rand.New(rand.NewPCG(seed, 3)), docker: seed%2 == 1, cut: 40 + int(seed*37%900)}
		streams := map[string][]string{}
		records := 0
		for i := range 400 {
			stream := [...]string{"stdout", "stderr"}[d.rnd.IntN(2)]
			line := strings.Repeat("INFO [x] noise ", d.rnd.IntN(60))
			if d.rnd.IntN(5) == 0 {
				records++
				line = fmt.Sprintf("[mono_ns=%d][T0x1][TIMING] emit_host_span: [STRACE] v=1 pid=7 tid=7 inv=%d hid=ab depth=1 name=chip.run.bind ts=%d dur=5 k=%s", i*10+9, i, i*10+1, strings.Repeat("v", d.rnd.IntN(150)))
			}
			streams[stream] = append(streams[stream], line)
		}
		d.lines(streams)

		r := newRig(t)
		set := metadatatest.NewSettings(componenttest.NewTelemetry())
		rd, err := newReader(t.Context(), set, r.cfg, r.next)
		require.NoError(t, err)
		rd.grace, rd.patience = 0, 0
		// The file is looked at as it grows.
		text := d.b.Bytes()
		from := 0
		for from < len(text) {
			size := bytes.LastIndexByte(text[:min(len(text), from+1+d.rnd.IntN(40_000))], '\n') + 1
			if size <= from {
				size = from + bytes.IndexByte(text[from:], '\n') + 1
			}
			blocks(text[from:size], func(tokens [][]byte, offsets []int64) {
				require.NoError(t, rd.consume(t.Context(), tokens, map[string]any{"log.file.path": "/pods/a_p_u/c/0.log"}, 0, offsets))
			})
			_, _, err := rd.endPoll(false)
			require.NoError(t, err)
			from = size
		}
		s := rd.feed.Assembler.Stats()
		require.Equal(t, uint64(records), s.Records[0], "seed %d", seed)
		for _, bad := range s.Records[1:] {
			require.Zero(t, bad, "seed %d", seed)
		}
		rd.close(t.Context())
	}
}

// FuzzRestore: whatever storage returns, the receiver refuses it or works.
func FuzzRestore(f *testing.F) {
	snapshot := func(text string) []byte {
		rd := fuzzReader(f)
		defer rd.close(f.Context())
		if err := rd.consume(f.Context(), [][]byte{[]byte(text)}, map[string]any{"log.file.path": "/pods/a_p_u/c/0.log"}, 0, []int64{0, int64(len(text))}); err != nil {
			f.Fatal(err)
		}
		rd.endOrder()
		s, err := rd.snapshot()
		if err != nil {
			f.Fatal(err)
		}
		return s
	}
	l := newLog(7)
	l.invocation(1, 3)
	l.children(2, 3)
	f.Add(snapshot(l.take()))
	f.Add(snapshot("2026-01-02T03:04:05.5Z stderr P [STRACE] v=1\n[HOSTLOG_DROPS] v=1 pid=7 new=1 total=1 queue_full=1 claim_exhausted=0 output_failed=0 not_admitted=0\n"))
	f.Add([]byte{pendingVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		rd := fuzzReader(t)
		defer rd.close(t.Context())
		if rd.restore(b) != nil {
			return
		}
		now := time.Now()
		for i := range 3 {
			rd.now = func() time.Time { return now.Add(time.Duration(i) * time.Hour) }
			if _, _, err := rd.endPoll(false); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := rd.snapshot(); err != nil {
			t.Fatal(err)
		}
	})
}

func fuzzReader(tb testing.TB) *reader {
	tb.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.Include, cfg.HostName = []string{"x"}, "n1"
	rd, err := newReader(tb.Context(), metadatatest.NewSettings(componenttest.NewTelemetry()), cfg, &counter{})
	if err != nil {
		tb.Fatal(err)
	}
	return rd
}
