// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package strace // import "github.com/phasecol/phasecol/pkg/strace"

import (
	"strings"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// role is what the assembler must know of a name without comparing strings.
type role uint8

const (
	roleOther role = iota
	roleRoot
	rolePrewarm
	// roleOnce marks depth-1 stages that occur once in an invocation, so that
	// a second one betrays a restart.
	roleOnce
	roleRunnerRun
	roleAICPULaunch
	roleDeviceBoundaries
	roleDeviceWall
	roleGraphBuild
	roleSubmit
	roleDispatch
	roleFrameSubmit
	roleActivate
	roleComplete
	roleRetirement
	roleSchedulerLoop
)

// Name is one span name, interned and classified once. It is shared: callers
// only read it.
type Name struct {
	// Text is the decoded, valid UTF-8 name.
	Text string
	// Stage is the name in one vocabulary for all generations.
	Stage string
	// Last is the last dotted part of Text.
	Last string
	// Family is one of the semconv Family values.
	Family string
	// Level is the node family's level (node, network1, ...), else empty.
	Level string
	// LevelWord is the level as written: interim generations used l3 and host.
	LevelWord string
	// Producer is set for ext.<producer>.<span>.
	Producer string
	// Truncated is true when the emitter cut the name.
	Truncated bool

	// raw is the name as written, to intern it again from a snapshot.
	raw  string
	role role
	// structured is true for names below one of the runtime's invocation
	// roots: the dotted name alone decides their parent.
	structured bool
	// device is true for device_wall and what is below: every generation
	// stamps them on the device's clock, and a line torn behind its attributes
	// may hide clk=dev, which would put them at boot time.
	device bool
	// prefixes are the dotted prefixes, longest first.
	prefixes []*Name

	// Scratch of the tree builder, valid while stamp is the current build.
	stamp uint64
	first int32
}

// maxNames bounds the intern table. The runtime's vocabulary has some eighty
// names; external producers may bring more, and hostile logs any number.
const maxNames = 8192

// maxNameLen bounds what is interned. Encoding generations cap names at 64
// bytes, older ones not at all.
const maxNameLen = 256

// Names interns span names. The zero value is not usable; see NewNames.
type Names struct {
	encoded, verbatim map[string]*Name
}

// NewNames returns an empty table.
func NewNames() *Names {
	return &Names{encoded: make(map[string]*Name, 128), verbatim: make(map[string]*Name)}
}

// Intern returns the Name for the raw bytes of a record. Verbatim names are
// not percent-decoded. The bytes are not kept.
func (n *Names) Intern(raw []byte, verbatim bool) *Name {
	table := n.encoded
	if verbatim {
		table = n.verbatim
	}
	if name, ok := table[string(raw)]; ok {
		return name
	}
	return n.add(table, string(raw), verbatim)
}

// other is the table that verbatim does not select.
func (n *Names) other(verbatim bool) map[string]*Name {
	if verbatim {
		return n.encoded
	}
	return n.verbatim
}

func (n *Names) add(table map[string]*Name, raw string, verbatim bool) *Name {
	text := raw
	if !verbatim {
		text = string(AppendDecoded(nil, []byte(raw)))
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	truncated := !verbatim && strings.HasSuffix(raw, "~")
	// One name written by encoding and by verbatim emitters is one Name: trees
	// compare pointers, and a torn old log can lose the sign of its kind.
	if twin := n.other(verbatim)[raw]; twin != nil && twin.Text == text && twin.Truncated == truncated {
		if len(table) < maxNames {
			table[raw] = twin
		}
		return twin
	}
	name := classify(text)
	name.raw = raw
	name.Truncated = truncated
	if len(raw) > maxNameLen {
		return name // junk: neither worth a place in the table nor a tree
	}
	// Prefixes must be the pointers that records with those names get, so
	// they come from the same table.
	if i := strings.LastIndexByte(raw, '.'); i > 0 {
		p, ok := table[raw[:i]]
		if !ok {
			p = n.add(table, raw[:i], verbatim)
		}
		name.prefixes = append(append(name.prefixes, p), p.prefixes...)
	}
	if len(table) < maxNames {
		table[raw] = name
	}
	return name
}

// roots maps each generation's invocation root to the one vocabulary.
var roots = [...]struct{ written, stage string }{
	{"chip.run", semconv.StageRun},
	{"simpler_run", semconv.StageRun},
	{"run_prepared", semconv.StageRun},
	{"chip.prewarm", "prewarm"},
	{"simpler_prewarm", "prewarm"},
}

// levels are the words of the node family. l3 and host each lived for a few
// days as the word for node.
var levels = [...]struct{ written, level string }{
	{"node", "node"},
	{"network1", "network1"},
	{"network2", "network2"},
	{"network3", "network3"},
	{"l3", "node"},
	{"host", "node"},
}

func classify(text string) *Name {
	name := &Name{Text: text, Stage: text, Family: semconv.FamilyUnknown, Last: text}
	if i := strings.LastIndexByte(text, '.'); i >= 0 {
		name.Last = text[i+1:]
	}
	for _, r := range roots {
		rest, ok := strings.CutPrefix(text, r.written)
		if !ok || (rest != "" && rest[0] != '.') {
			continue
		}
		name.Family = semconv.FamilyChip
		name.Stage = r.stage + rest
		name.structured = true
		name.role = chipRole(name.Stage)
		name.device = name.Stage == semconv.StageDeviceWall || strings.HasPrefix(name.Stage, semconv.StageDeviceWall+".")
		return name
	}
	head, rest, dotted := strings.Cut(text, ".")
	for _, l := range levels {
		if head != l.written || !dotted {
			continue
		}
		name.role = nodeRole(rest)
		if name.role == roleOther && l.written == "host" && rest != "run" {
			break // host.* meant the node family for one day only
		}
		name.Family, name.Level, name.LevelWord = semconv.FamilyNode, l.level, l.written
		name.Stage = "level." + rest
		return name
	}
	switch {
	case head == "ext" && dotted:
		name.Family = semconv.FamilyExternal
		name.Producer, _, _ = strings.Cut(rest, ".")
	case head == "chip" && dotted:
		name.Family = semconv.FamilyChip
	case head == "core" && dotted:
		name.Family = semconv.FamilyCore
	}
	return name
}

func chipRole(stage string) role {
	switch stage {
	case semconv.StageRun:
		return roleRoot
	case semconv.StagePrewarm:
		return rolePrewarm
	case semconv.StageBind, semconv.StageValidate, semconv.StageClaimRelease, semconv.StagePublishImage,
		semconv.StageStageInputs, semconv.StagePrepareExecution:
		return roleOnce
	case semconv.StageRunnerRun:
		return roleRunnerRun
	case semconv.StageRunnerRun + ".aicpu_launch":
		return roleAICPULaunch
	case semconv.StageRunnerRun + ".device_boundaries":
		return roleDeviceBoundaries
	case semconv.StageDeviceWall:
		return roleDeviceWall
	default:
		return roleOther
	}
}

func nodeRole(rest string) role {
	switch rest {
	case "graph_build":
		return roleGraphBuild
	case "submit":
		return roleSubmit
	case "dispatch":
		return roleDispatch
	case "frame_submit":
		return roleFrameSubmit
	case "activate":
		return roleActivate
	case "complete":
		return roleComplete
	case "post_fence_retirement":
		return roleRetirement
	case "scheduler_loop":
		return roleSchedulerLoop
	default:
		return roleOther
	}
}
