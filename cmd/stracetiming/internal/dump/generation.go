// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package dump // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/dump"

import (
	"bytes"
	"strings"

	"github.com/phasecol/phasecol/pkg/strace"
	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// generation tells which generation of the runtime printed a record, from its
// name and from before, the text between the record before it and this one. A
// range stands for generations that print alike; "" for what any could print.
func generation(r *strace.Record, before []byte) string {
	name := r.Name.Text
	mono := r.Mono != 0
	switch {
	case has(name, "run_prepared"):
		return "G1"
	case newest(r):
		return "G9"
	case has(name, "simpler_run"), has(name, "simpler_prewarm"):
		return simplerRun(mono, before)
	case r.Name.LevelWord == "l3" && mono:
		return "G6"
	case r.Name.LevelWord == "l3":
		return "G5"
	case r.Name.LevelWord == "host":
		return "G7"
	case r.Name.Family == semconv.FamilyNode:
		return "G8-G9"
	case r.Name.Family == semconv.FamilyChip:
		return "G7-G9"
	case r.Name.Family == semconv.FamilyExternal:
		return "G8-G9"
	default:
		return ""
	}
}

// has reports whether name is root or below it.
func has(name, root string) bool {
	rest, ok := strings.CutPrefix(name, root)
	return ok && (rest == "" || rest[0] == '.')
}

// simplerRun tells apart the generations that shared the name by the level
// and the source line of their prefix.
func simplerRun(mono bool, before []byte) string {
	in := func(text string) bool { return bytes.Contains(before, []byte(text)) }
	switch {
	case mono:
		return "G6"
	case in("[INFO_V9]"):
		return "G2"
	case in("[strace.h:131]"), in("[strace.h:184]"):
		return "G3"
	case in("[strace.h:134]"), in("[strace.h:223]"):
		return "G4-G5"
	default:
		return "G2-G6"
	}
}

// newest tells the names that came last.
func newest(r *strace.Record) bool {
	switch r.Name.Stage {
	case semconv.StagePublishImage, semconv.StageStageInputs, semconv.StagePrepareExecution, semconv.StageSchedulerLoop,
		semconv.StageRun + ".joined_launch", semconv.StageBind + ".overlap",
		semconv.StageRunnerRun + ".aicpu_launch", semconv.StageRunnerRun + ".device_boundaries":
		return true
	default:
		return false
	}
}
