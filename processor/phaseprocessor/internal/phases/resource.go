// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phases

import (
	"hash/maphash"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// MaxGroupKeys is how many resource attributes may name a join group.
const MaxGroupKeys = 4

// Resource attributes that tell one process from another.
const (
	hostName         = "host.name"
	podUID           = "k8s.pod.uid"
	containerName    = "k8s.container.name"
	containerRestart = "k8s.container.restart_count"
	processPID       = "process.pid"
	hwID             = "hw.id"
)

// GroupValues are the values of the join.group_by attributes on a resource, in
// that order; an absent one is empty.
type GroupValues [MaxGroupKeys]string

// Proc is the process that a resource stands for.
type Proc struct {
	// Key tells processes apart across batches.
	Key uint64
	// Machine tells hosts apart: the scope in which device numbers are unique.
	Machine uint64
	// Host is host.name, empty when the resource has none.
	Host string
	// PID is process.pid in decimal, empty when absent.
	PID string
	// Device is hw.id, empty when absent.
	Device string
	// Groups are the values that place the process in a join group.
	Groups GroupValues
}

// Rank is the name by which users know the process: its device, else its pid.
func (p *Proc) Rank() string {
	if p.Device != "" {
		return p.Device
	}
	return p.PID
}

// Identifier reads resources. It is safe for concurrent use.
type Identifier struct {
	seed    maphash.Seed
	groupBy []string
}

// NewIdentifier keeps groupBy, the attributes of join.group_by, which must not
// be changed afterwards and has at most MaxGroupKeys entries.
func NewIdentifier(groupBy []string) *Identifier {
	return &Identifier{seed: maphash.MakeSeed(), groupBy: groupBy}
}

// Groups reads only what places a resource in a join group.
func (id *Identifier) Groups(res pcommon.Resource) GroupValues {
	var out GroupValues
	for i, key := range id.groupBy {
		if v, ok := res.Attributes().Get(key); ok {
			out[i] = v.AsString()
		}
	}
	return out
}

// Proc reads who a resource is.
func (id *Identifier) Proc(res pcommon.Resource) Proc {
	var p Proc
	var pod, container, restart string
	for k, v := range res.Attributes().All() {
		switch k {
		case hostName:
			p.Host = v.AsString()
		case podUID:
			pod = v.AsString()
		case containerName:
			container = v.AsString()
		case containerRestart:
			restart = v.AsString()
		case processPID:
			if v.Type() == pcommon.ValueTypeInt {
				p.PID = strconv.FormatInt(v.Int(), 10)
			} else {
				p.PID = v.AsString()
			}
		case hwID:
			p.Device = v.AsString()
		}
		for i, key := range id.groupBy {
			if k == key {
				p.Groups[i] = v.AsString()
			}
		}
	}
	var h maphash.Hash
	h.SetSeed(id.seed)
	part := func(s string) {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	part(p.Host)
	for _, g := range p.Groups {
		part(g)
	}
	p.Machine = h.Sum64()
	part(pod)
	part(container)
	part(restart)
	part(p.PID)
	p.Key = h.Sum64()
	return p
}
