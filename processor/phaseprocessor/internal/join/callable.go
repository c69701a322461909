// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"fmt"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/engine"
)

// Names that the rules give.
const (
	decode  = "decode"
	prefill = "prefill"
)

// maxHIDs bounds the callables of one process that are counted.
const maxHIDs = 64

// Callables names what a run ran. Its owner serialises access.
type Callables struct {
	names   map[string]string
	procs   *simplelru.LRU[uint64, *procHIDs]
	learned *simplelru.LRU[hidKey, *sightings]
	// evicted counts processes given up since the last TakeEvicted.
	evicted int
}

// procHIDs counts the runs of a process by hid.
type procHIDs struct {
	counts  map[string]int
	busiest string
}

// hidKey is what a lesson is about: a callable's hash means the same in every
// process, the simulator's small numbers only in their own.
type hidKey struct {
	proc uint64
	hid  string
}

// sightings is where the join saw a callable.
type sightings struct{ decode, prefill bool }

// NewCallables keeps names, the configured ones by hid.
func NewCallables(names map[string]string, maxProcesses int) (*Callables, error) {
	c := &Callables{names: names}
	var err error
	if c.procs, err = simplelru.NewLRU[uint64, *procHIDs](maxProcesses, nil); err != nil {
		return nil, fmt.Errorf("counting callables: %w", err)
	}
	if c.learned, err = simplelru.NewLRU[hidKey, *sightings](maxProcesses, nil); err != nil {
		return nil, fmt.Errorf("learning callables: %w", err)
	}
	return c, nil
}

// TakeEvicted returns and clears how many processes were given up.
func (c *Callables) TakeEvicted() int {
	n := c.evicted
	c.evicted = 0
	return n
}

// nameless says whether a hid names nothing: one runtime never sets it.
func nameless(hid string) bool { return strings.Trim(hid, "0") == "" }

// Name names a run's callable, empty when it cannot be told. count is false for
// a run that was counted before.
func (c *Callables) Name(proc uint64, hid string, count bool) string {
	if nameless(hid) {
		return ""
	}
	p := c.proc(proc)
	if count {
		p.count(hid)
	}
	if name, ok := c.names[hid]; ok {
		return name
	}
	if s, ok := c.learned.Get(keyOf(proc, hid)); ok && s.decode != s.prefill {
		if s.decode {
			return decode
		}
		return prefill
	}
	switch n := p.counts[hid]; {
	case n > 1 && hid == p.busiest:
		return decode
	case n == 1:
		return prefill
	}
	return hid[:min(8, len(hid))]
}

func (c *Callables) proc(key uint64) *procHIDs {
	p, ok := c.procs.Get(key)
	if !ok {
		p = &procHIDs{counts: make(map[string]int)}
		if c.procs.Add(key, p) {
			c.evicted++
		}
	}
	return p
}

func (p *procHIDs) count(hid string) {
	n, ok := p.counts[hid]
	if !ok && len(p.counts) >= maxHIDs {
		return
	}
	if !ok {
		hid = strings.Clone(hid)
	}
	p.counts[hid] = n + 1
	if hid != p.busiest && n+1 > p.counts[p.busiest] {
		p.busiest = hid
	}
}

// Learn notes that a run lay wholly inside of a phase.
func (c *Callables) Learn(proc uint64, hid string, role engine.Role) {
	if nameless(hid) {
		return
	}
	k := keyOf(proc, hid)
	s, ok := c.learned.Get(k)
	if !ok {
		s = &sightings{}
		k.hid = strings.Clone(k.hid)
		c.learned.Add(k, s)
	}
	switch role {
	case engine.RoleDecode:
		s.decode = true
	case engine.RolePrefill:
		s.prefill = true
	}
}

func keyOf(proc uint64, hid string) hidKey {
	const shortest = 5
	if len(hid) >= shortest {
		proc = 0
	}
	return hidKey{proc, hid}
}
