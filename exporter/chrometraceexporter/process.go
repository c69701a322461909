// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"hash/fnv"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Numbers the exporter makes up lie above every process or thread id an
// operating system gives (Linux stops at 2^22), and below 2^31: first those of
// threads, then those of processes.
const (
	syntheticBase = 1 << 30
	syntheticPID  = 0b11 << 29
	pidMask       = 1<<29 - 1
)

// identity are the resource attributes that tell one process from another.
// What may be learned later, such as the device, is in the label only.
var identity = [...]string{
	"service.namespace", "service.name", "service.instance.id",
	"host.name", "host.id",
	"k8s.pod.uid", "k8s.container.name", "k8s.container.restart_count", "container.id",
	"process.pid",
}

// process is one group of lanes: one producing resource.
type process struct {
	key    string
	label  string
	pid    uint32
	device string // hw.id, "" when unknown
	// order is the process_sort_index: requests first, then hosts, then chips.
	order   int
	ordinal int
	threads map[threadKey]*track
	// named and used are the file numbers in which its metadata was written
	// and in which it was last drawn on.
	named, used uint64
	// shared is set on the one process that takes what has no place of its own.
	shared bool
}

// registry gives out processes and the numbers viewers know them by.
type registry struct {
	cfg   *LanesConfig
	procs map[string]*process
	// pids and tids are the numbers in use. A thread's number is unique over
	// all processes: viewers name threads by it alone.
	pids map[uint32]*process
	tids map[uint32]*process
	// blocks are the made-up thread numbers given to tracks, by their first.
	blocks   map[uint32]*track
	overflow *process
	created  int
	key      []byte
}

func newRegistry(cfg *LanesConfig) *registry {
	return &registry{
		cfg:    cfg,
		procs:  make(map[string]*process),
		pids:   make(map[uint32]*process),
		tids:   make(map[uint32]*process),
		blocks: make(map[uint32]*track),
	}
}

// process returns the process of a resource, making it when new.
func (r *registry) process(res pcommon.Resource) *process {
	attrs := res.Attributes()
	r.key = appendIdentity(r.key[:0], attrs)
	p, ok := r.procs[string(r.key)]
	if !ok {
		if len(r.procs) >= r.cfg.MaxProcesses {
			return r.shared()
		}
		p = r.add(string(r.key), attrs)
	}
	label := processLabel(attrs, r.cfg.LabelAttributes)
	if label != p.label {
		// The device of a process may become known later: name it again.
		p.label, p.named = label, 0
	}
	if p.device == "" {
		p.device = attrString(attrs, "hw.id")
	}
	return p
}

func (r *registry) add(key string, attrs pcommon.Map) *process {
	p := &process{key: key, ordinal: r.created, threads: make(map[threadKey]*track)}
	r.created++
	p.pid = r.takePID(attrInt(attrs, "process.pid"), p)
	r.procs[key] = p
	return p
}

// shared returns the process for resources beyond the limit. It has no
// threads, only asynchronous tracks, which need no place.
func (r *registry) shared() *process {
	if r.overflow == nil {
		r.overflow = &process{key: "\x00", label: "other processes", shared: true, order: orderLast}
		r.overflow.pid = r.takePID(0, r.overflow)
	}
	return r.overflow
}

func (r *registry) takePID(want int64, p *process) uint32 {
	if want > 0 && want < syntheticBase {
		pid := uint32(want)
		if r.pids[pid] == nil && r.tids[pid] == nil {
			r.pids[pid] = p
			return pid
		}
	}
	for pid := synthetic(p.key); ; pid = nextSynthetic(pid) {
		if r.pids[pid] == nil {
			r.pids[pid] = p
			return pid
		}
	}
}

// takeTID returns the thread number of a track's lane: the real one where it
// is free, else one of the track's block. It reports false where none is left.
func (r *registry) takeTID(tr *track, slot int) (tid uint32, ok bool) {
	p := tr.proc
	if want := tr.key.tid; tr.key.kind == kindThread && slot == 0 && want > 0 && want < syntheticBase {
		tid = uint32(want)
		if owner := r.pids[tid]; r.tids[tid] == nil && (owner == nil || owner == p) {
			r.tids[tid] = p
			return tid, true
		}
	}
	if tr.block == 0 {
		if len(r.blocks) >= maxBlocks {
			return 0, false
		}
		tr.block = r.takeBlock(tr)
	}
	tid = tr.block + uint32(slot)
	r.tids[tid] = p
	return tid, true
}

// lanes is the number of thread lanes known.
func (r *registry) lanes() int { return len(r.tids) }

// forget drops what was last drawn on before file number oldest, so that
// processes that are gone do not hold places for ever. Called between files.
func (r *registry) forget(oldest uint64) {
	for key, p := range r.procs {
		for tk, t := range p.threads {
			if t.used >= oldest {
				continue
			}
			for _, l := range t.lanes {
				if l != nil {
					delete(r.tids, l.tid)
				}
			}
			delete(r.blocks, t.block)
			delete(p.threads, tk)
		}
		if p.used < oldest && len(p.threads) == 0 {
			delete(r.pids, p.pid)
			delete(r.procs, key)
		}
	}
}

// synthetic is a number that depends on s only, never on the order of arrival
// (but for the rare collision, which takes the next free one).
func synthetic(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return syntheticPID | h.Sum32()&pidMask
}

func nextSynthetic(n uint32) uint32 {
	return syntheticPID | (n+1)&pidMask
}

func appendIdentity(b []byte, attrs pcommon.Map) []byte {
	for _, name := range identity {
		if v, ok := attrs.Get(name); ok {
			if v.Type() == pcommon.ValueTypeStr {
				b = append(b, v.Str()...)
			} else {
				b = append(b, v.AsString()...)
			}
		}
		b = append(b, 0)
	}
	return b
}

// processLabel is what a person reads: service, pid, device, rank, host, pod.
func processLabel(attrs pcommon.Map, extra []string) string {
	var s strings.Builder
	name := attrString(attrs, "service.name")
	if name == "" {
		name = "unknown service"
	}
	s.WriteString(name)
	if pid := attrInt(attrs, "process.pid"); pid != 0 {
		s.WriteString(" pid ")
		s.WriteString(strconv.FormatInt(pid, 10))
	}
	if dev := attrString(attrs, "hw.id"); dev != "" {
		kind := attrString(attrs, "hw.type")
		if kind == "" {
			kind = "device"
		}
		s.WriteString(" " + kind + " " + dev)
	}
	for _, key := range extra {
		if v := attrString(attrs, key); v != "" {
			s.WriteString(" " + key + " " + v)
		}
	}
	separator := " @ "
	for _, key := range [...]string{"host.name", "k8s.pod.name"} {
		if v := attrString(attrs, key); v != "" {
			s.WriteString(separator + v)
			separator = " "
		}
	}
	return s.String()
}

func attrString(attrs pcommon.Map, key string) string {
	v, ok := attrs.Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

// attrInt is the integer under key, also when it was sent as its decimal
// string; 0 when there is none.
func attrInt(attrs pcommon.Map, key string) int64 {
	v, ok := attrs.Get(key)
	if !ok {
		return 0
	}
	return valueInt(v)
}

func valueInt(v pcommon.Value) int64 {
	switch v.Type() {
	case pcommon.ValueTypeInt:
		return v.Int()
	case pcommon.ValueTypeStr:
		n, err := strconv.ParseInt(v.Str(), 10, 64)
		if err != nil {
			return 0
		}
		return n
	default:
		return 0
	}
}
