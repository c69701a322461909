// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/pkg/strace/internal/oracle"
)

// TestOracleSamples compares with the slow implementation on every sample:
// read at once, with anchors alone and with this host's clock to vouch.
func TestOracleSamples(t *testing.T) {
	for _, path := range sampleFiles(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text := readSample(t, path)
			if testing.Short() || underRace {
				text = text[:min(len(text), 1<<18)]
			}
			for _, hostClock := range []bool{false, true} {
				opt := oracle.Options{Host: testHost, Linger: int64(250 * time.Millisecond)}
				p := newPlayer(t)
				if hostClock {
					opt.HostClock, opt.HasHostClock = 1_795_989_239_099_174_200, true
					p.asm.SetHostClock(HostClock{Mono: MaxTS, Offset: opt.HostClock, Valid: true})
					p.file = FileClock{Birth: 1, Written: 1 << 61}
				}
				p.text("dir", text)
				p.flush()
				p.sameAs(oracle.Read([]oracle.File{{Scope: "dir", Text: text}}, opt))
				p.accounted()
				require.Zero(t, p.repeated)
			}
		})
	}
}

// generatedRecords is how many records TestOracleGenerated compares:
// STRACE_ORACLE_RECORDS, else enough to meet every case.
func generatedRecords(t *testing.T) int {
	t.Helper()
	if text := os.Getenv("STRACE_ORACLE_RECORDS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, "STRACE_ORACLE_RECORDS")
		return n
	}
	if testing.Short() || underRace {
		return 20_000
	}
	return 100_000
}

// TestOracleGenerated compares on random logs: every generation, interleaved,
// torn, cut, repeated, in any order of files. A failure names the seed.
func TestOracleGenerated(t *testing.T) {
	want := generatedRecords(t)
	records := 0
	for seed := uint64(1); records < want; seed++ {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 7))}
		playJob(t, g, seed)
		records += g.records
		if t.Failed() {
			return
		}
	}
	t.Logf("%d records", records)
}

func playJob(t *testing.T, g *generator, seed uint64) {
	t.Helper()
	done := false
	defer func() {
		if t.Failed() || !done {
			t.Errorf("seed %d", seed)
		}
	}()
	g.calm = g.IntN(3) == 0
	files := g.job("pod/"+strconv.FormatUint(seed%5, 10), 100)
	// Equal pids in another container must stay apart.
	if g.IntN(4) == 0 {
		files = append(files, g.job("other", 100)...)
	}
	opt := oracle.Options{Host: testHost, Linger: int64(250 * time.Millisecond)}
	p := newPlayer(t, func(c *Config) {
		if g.calm { // no pause is as long as these
			c.StitchWait, c.MaxOpen = 1000*time.Hour, 1000*time.Hour
		}
	})
	g.play(p, files)
	p.flush()
	p.sameAs(oracle.Read(files, opt))
	p.accounted()
	done = true
}

// play reads files in a random order, in pieces of many sizes. Now and then the
// reader stops and goes on from a snapshot, or crashes: then it goes on from an
// older snapshot and the offsets of that time.
func (g *generator) play(p *player, files []oracle.File) {
	lines := make([][]string, len(files))
	next := make([]int, len(files))
	left := 0
	for i, f := range files {
		lines[i] = strings.Split(f.Text, "\n")
		left += len(lines[i])
	}
	piece := []int{1, 7, 1 << 20}[g.IntN(3)]
	restarts := g.IntN(4) == 0
	inRun := map[string]bool{}
	var savedInRun map[string]bool
	crashAt := -1
	var saved []byte
	var savedNext []int
	var savedStats Stats
	for left > 0 {
		i := g.IntN(len(files))
		n := min(len(lines[i])-next[i], 1+g.IntN(piece))
		for range n {
			text := lines[i][next[i]]
			p.line(files[i].Scope, []byte(text), next[i] < len(lines[i])-1)
			next[i]++
			// A run that lacks but its retirement ends when nothing comes.
			switch {
			case strings.Contains(text, ".post_fence_retirement"):
				delete(inRun, files[i].Scope)
			case strings.Contains(text, ".complete"):
				inRun[files[i].Scope] = true
			}
		}
		left -= n
		if g.calm && len(inRun) == 0 && g.IntN(3) == 0 {
			p.now += int64(300 * time.Millisecond)
			p.asm.EndPoll(p.now)
		}
		switch {
		case !restarts:
		case left <= crashAt:
			p.crashed = true
			p.restart(saved, savedStats)
			for i := range next {
				left += next[i] - savedNext[i]
			}
			next, inRun, crashAt, restarts = savedNext, savedInRun, -1, false
		case crashAt < 0 && g.IntN(20) == 0:
			saved, savedNext, savedInRun, savedStats = p.asm.AppendSnapshot(nil), slices.Clone(next), maps.Clone(inRun), p.asm.Stats()
			if g.IntN(2) == 0 {
				p.restart(saved, savedStats)
				continue
			}
			crashAt = g.IntN(left + 1)
		}
	}
}
