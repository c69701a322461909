// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
	"github.com/phasecol/phasecol/cmd/stracegen/truth"
)

// recording is everything a simulation yields, records copied.
type recording struct {
	sim     *Sim
	at      []int64
	records []logfmt.Record
	procs   []*Process
	invs    []*Invocation
	runs    []*Run
	seqs    []*Sequence
	reqs    []*Request
	truth   *truth.File
	text    []byte
}

func record(t *testing.T, cfg Config) *recording {
	t.Helper()
	sim, err := New(cfg)
	require.NoError(t, err)
	f, err := logfmt.New(cfg.Generation, logfmt.Options{})
	require.NoError(t, err)
	b := NewTruthBuilder(sim)
	rec := &recording{sim: sim}
	for e := range sim.Events() {
		rec.at = append(rec.at, e.At)
		b.Add(e)
		switch {
		case e.Record != nil:
			r := *e.Record
			r.Attrs = slices.Clone(r.Attrs)
			rec.records = append(rec.records, r)
			rec.text = f.Append(rec.text, e.Record)
		case e.Process != nil:
			rec.procs = append(rec.procs, e.Process)
		case e.Invocation != nil:
			rec.invs = append(rec.invs, e.Invocation)
		case e.Run != nil:
			rec.runs = append(rec.runs, e.Run)
		case e.Sequence != nil:
			rec.seqs = append(rec.seqs, e.Sequence)
		case e.Request != nil:
			rec.reqs = append(rec.reqs, e.Request)
		}
	}
	rec.truth = b.File()
	return rec
}

// mixed is a configuration with some of everything.
func mixed(seed uint64, change ...func(*Config)) Config {
	c := NewDefaultConfig()
	c.Seed, c.Requests, c.Rate = seed, 120, 60
	c.StartWall = 1_767_225_600_000_000_000
	c.ErrorRate, c.CancelRate, c.RejectRate, c.PDRate, c.OneTokenRate = 0.1, 0.1, 0.05, 0.05, 0.1
	c.Siblings, c.SiblingRate = 3, 0.2
	c.Output = MustDist("1-24")
	for _, f := range change {
		f(&c)
	}
	return c
}

func attr(r *logfmt.Record, key string) (logfmt.Attr, bool) {
	for _, a := range r.Attrs {
		if a.Key == key {
			return a, true
		}
	}
	return logfmt.Attr{}, false
}

func attrKeys(r *logfmt.Record) string {
	keys := make([]string, len(r.Attrs))
	for i, a := range r.Attrs {
		keys[i] = a.Key
	}
	return strings.Join(keys, " ")
}

// chipNames are the names of each invocation's records in print order, by what
// the records say alone: a root ends the invocation of its pid and inv.
func chipNames(records []logfmt.Record, root string) [][]string {
	type key struct {
		pid int32
		inv uint64
	}
	open := map[key][]string{}
	var out [][]string
	for i := range records {
		r := &records[i]
		if r.Kind != logfmt.KindSpan || (r.Name != root && !strings.HasPrefix(r.Name, root+".")) {
			continue
		}
		k := key{r.PID, r.Inv}
		open[k] = append(open[k], strings.TrimPrefix(strings.TrimPrefix(r.Name, root), "."))
		if r.Depth == 0 {
			out = append(out, open[k])
			delete(open, k)
		}
	}
	return out
}
