// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package oracle // import "github.com/phasecol/phasecol/pkg/strace/internal/oracle"

import (
	"regexp"
	"slices"
	"strings"
)

var (
	runRoot     = regexp.MustCompile(`^(chip\.run|simpler_run|run_prepared)(\.|$)`)
	prewarmRoot = regexp.MustCompile(`^(chip\.prewarm|simpler_prewarm)(\.|$)`)
	nodeName    = regexp.MustCompile(`^(node|network[123]|l3)\.(.*)$`)
	hostName    = regexp.MustCompile(`^host\.(run|graph_build|submit|dispatch|frame_submit|activate|complete|post_fence_retirement|scheduler_loop)$`)
)

// stage is the name in one vocabulary for all generations.
func stage(name string) string {
	switch {
	case runRoot.MatchString(name):
		return "run" + dotted(name, runRoot)
	case prewarmRoot.MatchString(name):
		return "prewarm" + dotted(name, prewarmRoot)
	case nodeName.MatchString(name):
		return "level." + nodeName.FindStringSubmatch(name)[2]
	case hostName.MatchString(name):
		return "level." + hostName.FindStringSubmatch(name)[1]
	default:
		return name
	}
}

// dotted is what follows the root in name, with its dot.
func dotted(name string, root *regexp.Regexp) string {
	return name[len(strings.TrimSuffix(root.FindString(name), ".")):]
}

func family(name string) string {
	switch {
	case structured(name), strings.HasPrefix(name, "chip."):
		return "chip"
	case nodeName.MatchString(name), hostName.MatchString(name):
		return "node"
	case strings.HasPrefix(name, "ext."):
		return "external"
	case strings.HasPrefix(name, "core."):
		return "core"
	default:
		return "unknown"
	}
}

// structured names are those below one of the runtime's own roots.
func structured(name string) bool {
	return runRoot.MatchString(name) || prewarmRoot.MatchString(name)
}

// once tells the stages that occur once in an invocation.
func once(name string) bool {
	return slices.Contains([]string{
		"run.bind", "run.validate", "run.claim_release", "run.publish_image", "run.stage_inputs",
		"run.prepare_execution", "run.runner_run",
	}, chipStage(name))
}

// chipStage is the stage of the runtime's own names, empty for all others,
// whatever they are called.
func chipStage(name string) string {
	if !structured(name) {
		return ""
	}
	return stage(name)
}
