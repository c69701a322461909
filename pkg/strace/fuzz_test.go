// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/pkg/strace/internal/oracle"
)

// seedLogs are the kept samples, and random logs.
func seedLogs(f *testing.F) [][]byte {
	f.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "samples", "*.log"))
	require.NoError(f, err)
	require.NotEmpty(f, files)
	var all [][]byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		all = append(all, data[:min(len(data), 8000)])
	}
	for seed := range uint64(20) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 9))}
		for _, file := range g.job("dir", 100) {
			all = append(all, []byte(file.Text[:min(len(file.Text), 8000)]))
		}
	}
	return all
}

// FuzzScanner reads any line: it ends, its slices lie in the line, a record
// obeys the grammar's ranges, and the oracle finds the same.
func FuzzScanner(f *testing.F) {
	for _, log := range seedLogs(f) {
		for i, line := range bytes.Split(log, []byte("\n")) {
			if i < 40 {
				f.Add(line, i%2 == 0)
			}
		}
	}
	f.Fuzz(func(t *testing.T, line []byte, terminated bool) {
		s := NewScanner(NewNames())
		s.Reset(line, terminated)
		outcomes := map[string]int{}
		for n := 0; ; n++ {
			k := s.Next()
			if k == KindNone {
				break
			}
			require.LessOrEqual(t, n, len(line))
			switch k {
			case KindBad:
				outcomes[s.Outcome.String()]++
			case KindRecord:
				outcomes[s.Outcome.String()]++
				r := &s.Record
				require.True(t, r.TS >= 0 && r.Dur >= 0 && r.End() <= MaxTS && r.PID >= 0 && r.TID >= 0 && r.Depth >= 0 && r.Mono >= 0)
				require.NotNil(t, r.Name)
				require.Contains(t, string(line), string(r.Attrs))
			}
		}
		require.Equal(t, KindNone, s.Next())
		if !bytes.ContainsRune(line, '\n') {
			require.Equal(t, oracleOutcomes(string(line), terminated), outcomes)
		}
	})
}

// oracleOutcomes counts markers of a line; singles and duplicates are no
// matter of one line.
func oracleOutcomes(line string, terminated bool) map[string]int {
	if terminated {
		line += "\n"
	}
	return oracle.Outcomes(line)
}

// FuzzAssembler reads any log, with small bounds and restarts: no panic, the
// bounds hold, and every record is accounted for.
func FuzzAssembler(f *testing.F) {
	for i, log := range seedLogs(f) {
		f.Add(log, uint8(i))
	}
	f.Fuzz(func(t *testing.T, log []byte, mode uint8) {
		p := newPlayer(t, func(c *Config) {
			if mode&1 != 0 {
				c.MaxInvocations, c.MaxRuns, c.MaxBytes, c.MaxProcesses, c.MaxScopes = 3, 2, 4000, 3, 2
			}
			c.HoldForPoll = mode&2 != 0
			if mode&4 != 0 {
				c.TimeZone = time.UTC
			}
		})
		cfg := p.cfg
		spans, synthetic, events := uint64(0), uint64(0), uint64(0)
		p.cfg.Emit = func(tr *Trace) {
			checkTrace(t, tr)
			for i := range tr.Spans {
				spans++
				if tr.Spans[i].Synthetic {
					synthetic++
				}
			}
			events += uint64(len(tr.Events))
		}
		p.start()
		p.now = 1_790_000_000_000_000_000
		for i, line := range bytes.Split(log, []byte("\n")) {
			scope := "a"
			if mode&8 != 0 {
				scope = string(rune('a' + i/7%4))
			}
			p.line(scope, line, true)
			s := p.asm.Stats()
			require.LessOrEqual(t, s.Open+s.Waiting, cfg.MaxInvocations)
			require.LessOrEqual(t, s.OpenRuns, cfg.MaxRuns)
			require.LessOrEqual(t, s.HeldBytes, cfg.MaxBytes)
			require.GreaterOrEqual(t, s.HeldBytes, 0)
			require.LessOrEqual(t, s.Processes, cfg.MaxProcesses)
			require.LessOrEqual(t, s.Scopes, cfg.MaxScopes)
			if mode&16 != 0 && i%5 == 4 {
				p.now += int64(300 * time.Millisecond)
				p.asm.EndPoll(p.now)
			}
			if mode&32 != 0 && i%11 == 10 {
				p.restart(p.asm.AppendSnapshot(nil), p.asm.Stats())
			}
		}
		p.flush()
		s := p.stats()
		require.Equal(t, s.Records[OutcomeSpan]+s.Records[OutcomePoint], spans-synthetic+events, "records in, spans and events out")
		require.Zero(t, s.HeldBytes)
		require.Zero(t, s.Open+s.Waiting+s.OpenRuns)
	})
}

// checkTrace checks what holds of any trace.
func checkTrace(t *testing.T, tr *Trace) {
	t.Helper()
	require.False(t, tr.ID.IsZero())
	require.NotEmpty(t, tr.Spans)
	index := map[SpanID]int{}
	for i := range tr.Spans {
		s := &tr.Spans[i]
		require.False(t, s.ID.IsZero())
		// Text that is read again while its first reading is still held repeats
		// its spans, as they were.
		if k, twice := index[s.ID]; twice {
			first := &tr.Spans[k]
			require.Equal(t, []any{first.Name, first.TS, first.End - first.Start, first.Device, first.TID}, []any{s.Name, s.TS, s.End - s.Start, s.Device, s.TID},
				"one id for two spans")
		}
		index[s.ID] = i
		require.GreaterOrEqual(t, s.End, s.Start)
		require.Less(t, s.Process, len(tr.Processes))
		require.LessOrEqual(t, s.FirstEvent+s.NumEvents, len(tr.Events))
		require.GreaterOrEqual(t, s.SlackNS, int64(0))
		require.True(t, s.ErrorNS >= 0 || s.ErrorNS == UnknownError)
		require.Equal(t, strings.ToValidUTF8(s.Text, ""), s.Text)
	}
	// Parents lead to a top without going round.
	for i := range tr.Spans {
		steps := 0
		for at, ok := i, true; ok; at, ok = parentOf(index, tr, at) {
			steps++
			require.LessOrEqual(t, steps, len(tr.Spans), "parents of %s go round", tr.Spans[i].Text)
		}
	}
}

func parentOf(index map[SpanID]int, tr *Trace, at int) (int, bool) {
	up, ok := index[tr.Spans[at].Parent]
	return up, ok
}

// FuzzOracle lets the fuzzer choose the seed of random logs.
func FuzzOracle(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		playJob(t, &generator{Rand: rand.New(rand.NewPCG(seed, 11))}, seed)
	})
}
