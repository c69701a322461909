// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strconv"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
)

// stage is a record name in one generation and in the vocabulary common to all.
type stage struct{ name, stage string }

// stages are the names of an invocation's records.
type stages struct {
	root, compat, overlap, bind, bindArgs, bindPrebuilt    stage
	publish, stageInputs, prepare, launch, joined          stage
	runner, validate, boundaries, claim                    stage
	wall, preamble, soLoad, graphBuild, config, arena      stage
	smReset, postOrch, orch, sched                         stage
	taskSlots                                              [16]stage
	segArenaBuild, segStaticArena, segHeap, segSharedMem   stage
	segRuntimeInit, segHostOrch, segUpload, segH2D, segEnd stage
}

func newStages(generation int) *stages {
	root := logfmt.RootName(generation)
	at := func(rest string) stage { return stage{root + rest, "run" + rest} }
	const wall = ".runner_run.device_wall"
	s := &stages{
		root: at(""), compat: at(".bind.compatibility"), overlap: at(".bind.overlap"),
		bind: at(".bind"), bindArgs: at(".bind.args"), bindPrebuilt: at(".bind.prebuilt"),
		publish: at(".publish_image"), stageInputs: at(".stage_inputs"), prepare: at(".prepare_execution"),
		launch: at(".runner_run.aicpu_launch"), joined: at(".joined_launch"),
		runner: at(".runner_run"), validate: at(".validate"),
		boundaries: at(".runner_run.device_boundaries"), claim: at(".claim_release"),
		wall: at(wall), preamble: at(wall + ".preamble"), soLoad: at(wall + ".so_load"),
		graphBuild: at(wall + ".graph_build"), config: at(wall + ".config_validate"),
		arena: at(wall + ".arena_wire"), smReset: at(wall + ".sm_reset"), postOrch: at(wall + ".post_orch"),
		orch: at(wall + ".orch"), sched: at(wall + ".sched"),
		segArenaBuild: at(".bind.arena_build"), segStaticArena: at(".bind.static_arena"),
		segHeap: at(".bind.gm_heap"), segSharedMem: at(".bind.shared_mem"),
		segRuntimeInit: at(".bind.runtime_init"), segHostOrch: at(".bind.host_orch"),
		segUpload: at(".bind.graph_upload"), segH2D: at(".bind.arena_h2d"), segEnd: at(".bind.host_view_close"),
	}
	for i := range s.taskSlots {
		s.taskSlots[i] = at(wall + ".task_slot_" + strconv.Itoa(i))
	}
	return s
}

// levelNames are the names of a run's records.
type levelNames struct {
	graphBuild, submit, dispatch, frameSubmit, activate, complete, retirement, loop string
}

func newLevelNames(word string) levelNames {
	return levelNames{
		graphBuild: word + ".graph_build", submit: word + ".submit", dispatch: word + ".dispatch",
		frameSubmit: word + ".frame_submit", activate: word + ".activate", complete: word + ".complete",
		retirement: word + ".post_fence_retirement", loop: word + ".scheduler_loop",
	}
}
