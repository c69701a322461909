// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package logfmt

// RootName is the name of an invocation's root span in a generation.
func RootName(generation int) string {
	switch {
	case generation <= 1:
		return "run_prepared"
	case generation <= 6:
		return "simpler_run"
	default:
		return "chip.run"
	}
}

// PrewarmName is the name of the span of a worker's warm-up, empty where the
// generation has none.
func PrewarmName(generation int) string {
	switch {
	case generation <= 2:
		return ""
	case generation <= 6:
		return "simpler_prewarm.build"
	default:
		return "chip.prewarm.build"
	}
}

// LevelWord is the first part of the names of a level's records. Level is
// "node" or "network1" … "network3"; the result is empty where the generation
// prints no such records.
func LevelWord(generation int, level string) string {
	switch {
	case generation <= 4:
		return ""
	case generation <= 6:
		return "l3"
	case generation == 7 && level == "node":
		return "host"
	default:
		return level
	}
}
