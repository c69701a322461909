// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine holds what serving engines call their request spans and
// attributes, with the unit of every key.
package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Role is what a span is in the life of a request.
type Role uint8

// Roles. The three phases are last and in the order in which they run.
const (
	RoleNone Role = iota
	// RoleRequest is the span of the HTTP server, around everything.
	RoleRequest
	// RoleEngine is one sequence in the engine.
	RoleEngine
	// RoleThread is a span between a sequence and its phases.
	RoleThread
	RoleQueue
	RolePrefill
	RoleDecode
)

// Phases is the number of phase roles, Phase their index from zero.
const Phases = 3

// Phase is the index of a phase role, or -1.
func (r Role) Phase() int { return int(r) - int(RoleQueue) }

// Field is a fact that an engine states in an attribute of its spans.
type Field uint8

// Fields.
const (
	FieldRequestID Field = iota
	FieldSequenceID
	FieldOutputTokens
	FieldFinishReason
	FieldErrorType
	FieldStatusCode
	FieldUnsupported
	FieldQueue
	FieldTTFT
	FieldPrefill
	FieldDecode
	FieldE2E
	numFields
)

// Duration says whether the field is a duration and so needs a unit.
func (f Field) Duration() bool { return f >= FieldQueue }

// Unit is the nanoseconds that 1 stands for.
type Unit float64

// Key is an attribute key and, for durations, its unit. The same key has
// different units in different engines.
type Key struct {
	Name string
	Unit Unit
}

// Table is one engine's vocabulary.
type Table struct {
	// Name is the preset it was made from.
	Name string
	// Services limits the table to these service.name values; empty: any.
	Services []string
	// HTTP is true when every sequence hangs under a span of the HTTP server.
	HTTP bool
	// MarksPhase is true when an abnormal end shows as an error on exactly the
	// phase that was active.
	MarksPhase bool
	// AttributePhases is true when the engine has no spans for its phases, only
	// their lengths as attributes.
	AttributePhases bool
	// Loose is true when phases hang somewhere below their sequence and may
	// repeat, once for each thread that worked on it.
	Loose bool

	exact    map[string]Role
	patterns []pattern
	spans    map[Role][]string
	keys     [numFields][]Key
}

type pattern struct {
	parts []string
	role  Role
}

// Role is the role of a span by its name.
func (t *Table) Role(name string) Role {
	if r, ok := t.exact[name]; ok {
		return r
	}
	for i := range t.patterns {
		if t.patterns[i].match(name) {
			return t.patterns[i].role
		}
	}
	return RoleNone
}

// Serves says whether the table is meant for a service.
func (t *Table) Serves(service string) bool {
	return len(t.Services) == 0 || slices.Contains(t.Services, service)
}

// match is a match of the whole name, a * standing for any text.
func (p *pattern) match(name string) bool {
	rest, ok := strings.CutPrefix(name, p.parts[0])
	if !ok {
		return false
	}
	last := len(p.parts) - 1
	for _, part := range p.parts[1:last] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, p.parts[last])
}

// compile makes the lookups out of spans.
func (t *Table) compile() {
	t.exact = make(map[string]Role)
	t.patterns = nil
	t.AttributePhases = len(t.spans[RoleQueue])+len(t.spans[RolePrefill])+len(t.spans[RoleDecode]) == 0
	for role := RoleRequest; role <= RoleDecode; role++ {
		for _, name := range t.spans[role] {
			if strings.Contains(name, "*") {
				t.patterns = append(t.patterns, pattern{parts: strings.Split(name, "*"), role: role})
			} else {
				t.exact[name] = role
			}
		}
	}
}

var roleNames = map[string]Role{
	"request": RoleRequest, "engine": RoleEngine, "thread": RoleThread,
	"queue": RoleQueue, "prefill": RolePrefill, "decode": RoleDecode,
}

var fieldNames = map[string]Field{
	"request_id": FieldRequestID, "sequence_id": FieldSequenceID, "output_tokens": FieldOutputTokens,
	"finish_reason": FieldFinishReason, "error_type": FieldErrorType, "status_code": FieldStatusCode,
	"unsupported": FieldUnsupported, "queue": FieldQueue, "ttft": FieldTTFT, "prefill": FieldPrefill,
	"decode": FieldDecode, "e2e": FieldE2E,
}

var unitNames = map[string]Unit{"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1}

// KeyOverride is a row of a Table as users write it.
type KeyOverride struct {
	Key string
	// Unit is s, ms, us or ns for durations, empty otherwise.
	Unit string
}

// New makes the table of a preset with rows replaced: spans by role name, keys
// by field name. A replaced row holds only what is given, an empty one nothing.
func New(preset string, services []string, spans map[string][]string, keys map[string][]KeyOverride) (*Table, error) {
	t, ok := presets()[preset]
	if !ok {
		return nil, fmt.Errorf("preset %q is unknown: use %s", preset, strings.Join(PresetNames(), ", "))
	}
	t.Services = services
	for name, patterns := range spans {
		role, ok := roleNames[name]
		if !ok {
			return nil, fmt.Errorf("spans::%s is no role: use %s", name, known(roleNames))
		}
		if slices.Contains(patterns, "") {
			return nil, fmt.Errorf("spans::%s has an empty name: give the span's name, * for any text", name)
		}
		t.spans[role] = patterns
		if role == RoleRequest {
			t.HTTP = len(patterns) > 0
		}
	}
	for name, row := range keys {
		field, ok := fieldNames[name]
		if !ok {
			return nil, fmt.Errorf("keys::%s is no field: use %s", name, known(fieldNames))
		}
		compiled, err := compileKeys(field, row)
		if err != nil {
			return nil, fmt.Errorf("keys::%s: %w", name, err)
		}
		t.keys[field] = compiled
	}
	t.compile()
	return t, nil
}

func compileKeys(field Field, row []KeyOverride) ([]Key, error) {
	out := make([]Key, 0, len(row))
	for _, k := range row {
		if k.Key == "" {
			return nil, errors.New("key is empty: give the attribute's name")
		}
		if !field.Duration() {
			if k.Unit != "" {
				return nil, fmt.Errorf("unit %q is given for %q, which is no duration: leave it out", k.Unit, k.Key)
			}
			out = append(out, Key{Name: k.Key})
			continue
		}
		unit, ok := unitNames[k.Unit]
		if !ok {
			return nil, fmt.Errorf("unit %q of %q is unknown: use s, ms, us or ns", k.Unit, k.Key)
		}
		out = append(out, Key{Name: k.Key, Unit: unit})
	}
	return out, nil
}

func known[V any](m map[string]V) string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
