// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"bytes"
	"fmt"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
	"github.com/phasecol/phasecol/cmd/stracegen/model"
)

// A log of generation 6 and the truth about it, in memory.
func Example() {
	cfg := model.NewDefaultConfig()
	cfg.Generation, cfg.Requests, cfg.StartWall = 6, 2, 1_767_225_600_000_000_000

	sim, err := model.New(cfg)
	if err != nil {
		panic(err)
	}
	format, err := logfmt.New(cfg.Generation, logfmt.Options{})
	if err != nil {
		panic(err)
	}
	truth := model.NewTruthBuilder(sim)
	var log []byte
	for event := range sim.Events() {
		truth.Add(event)
		if event.Record != nil {
			log = format.Append(log, event.Record)
		}
	}
	first, _, _ := bytes.Cut(log, []byte("\n"))
	fmt.Printf("%s\n", first)
	fmt.Println(len(truth.File().Requests), "requests")
	// Output:
	// [mono_ns=1000000536179][T0x7f08be088440][TIMING] clock_anchor: [CLOCK_ANCHOR] v=1 pid=17413 mono_ns=1000000535590 wall_ns=1767225600000535590
	// 2 requests
}
