// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phases

import (
	"strings"

	"github.com/phasecol/phasecol/pkg/strace/semconv"
)

// stage is what a span means to the sums below; most spans mean nothing.
type stage uint8

const (
	stageNone stage = iota
	stageRun
	stageLevelRun
	stageBindSegment
	// Those from here on are summed, each under its own attribute.
	stageBind
	stageStageInputs
	stagePrepareExecution
	stageRunnerRun
	stageClaimRelease
	stageValidate
	stageDeviceWall
	stagePreamble
	stageSoLoad
	stageGraphBuild
	stageConfigValidate
	stageArenaWire
	stageSmReset
	stagePostOrch
	stageOrch
	stageSched
	numStages
)

// sumAttr is the attribute that carries a stage's sum.
var sumAttr = [numStages]string{
	stageBind:             semconv.PhaseBind,
	stageStageInputs:      semconv.PhaseStageInputs,
	stagePrepareExecution: semconv.PhasePrepareExecution,
	stageRunnerRun:        semconv.PhaseRunnerRun,
	stageClaimRelease:     semconv.PhaseClaimRelease,
	stageValidate:         semconv.PhaseValidate,
	stageDeviceWall:       semconv.PhaseDeviceWall,
	stagePreamble:         semconv.PhasePreamble,
	stageSoLoad:           semconv.PhaseSoLoad,
	stageGraphBuild:       semconv.PhaseGraphBuild,
	stageConfigValidate:   semconv.PhaseConfigValidate,
	stageArenaWire:        semconv.PhaseArenaWire,
	stageSmReset:          semconv.PhaseSmReset,
	stagePostOrch:         semconv.PhasePostOrch,
	stageOrch:             semconv.PhaseOrch,
	stageSched:            semconv.PhaseSched,
}

const (
	bindPrefix   = semconv.StageBind + "."
	devicePrefix = semconv.StageDeviceWall + "."
)

// stageOf reads the strace.stage value.
func stageOf(name string) stage {
	switch name {
	case semconv.StageRun:
		return stageRun
	case semconv.StageLevelRun:
		return stageLevelRun
	case semconv.StageBind:
		return stageBind
	case semconv.StageStageInputs:
		return stageStageInputs
	case semconv.StagePrepareExecution:
		return stagePrepareExecution
	case semconv.StageRunnerRun:
		return stageRunnerRun
	case semconv.StageClaimRelease:
		return stageClaimRelease
	case semconv.StageValidate:
		return stageValidate
	case semconv.StageDeviceWall:
		return stageDeviceWall
	}
	if window, ok := strings.CutPrefix(name, devicePrefix); ok {
		return deviceStage(window)
	}
	if segment, ok := strings.CutPrefix(name, bindPrefix); ok && segment != "" {
		return stageBindSegment
	}
	return stageNone
}

func deviceStage(window string) stage {
	switch window {
	case "preamble":
		return stagePreamble
	case "so_load":
		return stageSoLoad
	case "graph_build":
		return stageGraphBuild
	case "config_validate":
		return stageConfigValidate
	case "arena_wire":
		return stageArenaWire
	case "sm_reset":
		return stageSmReset
	case "post_orch":
		return stagePostOrch
	case "orch":
		return stageOrch
	case "sched":
		return stageSched
	}
	return stageNone
}

// hostStage says whether a stage is one of the six summed at depth 1.
func (s stage) hostStage() bool {
	return s >= stageBind && s <= stageValidate
}

// deviceStage says whether a stage is a window on the device.
func (s stage) deviceStage() bool {
	return s >= stageDeviceWall
}

// segmentAttr is the attribute of a bind segment. The usual ones are spelled
// out, since a concatenation for every span would be the hot path's only
// allocation.
func segmentAttr(stageName string) string {
	switch segment := stageName[len(bindPrefix):]; segment {
	case "args":
		return semconv.PhaseBindPrefix + "args"
	case "prebuilt":
		return semconv.PhaseBindPrefix + "prebuilt"
	case "arena_build":
		return semconv.PhaseBindPrefix + "arena_build"
	case "static_arena":
		return semconv.PhaseBindPrefix + "static_arena"
	case "gm_heap":
		return semconv.PhaseBindPrefix + "gm_heap"
	case "shared_mem":
		return semconv.PhaseBindPrefix + "shared_mem"
	case "runtime_init":
		return semconv.PhaseBindPrefix + "runtime_init"
	case "host_orch":
		return semconv.PhaseBindPrefix + "host_orch"
	case "graph_pack":
		return semconv.PhaseBindPrefix + "graph_pack"
	case "graph_upload":
		return semconv.PhaseBindPrefix + "graph_upload"
	case "arena_h2d":
		return semconv.PhaseBindPrefix + "arena_h2d"
	case "host_view_close":
		return semconv.PhaseBindPrefix + "host_view_close"
	default:
		return semconv.PhaseBindPrefix + segment
	}
}
