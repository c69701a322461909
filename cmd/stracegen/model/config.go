// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package model simulates a serving process: requests arrive, an engine batches
// them into steps, every step is a run over all ranks, and every rank's chip
// process prints the records of one invocation.
//
// The simulation is a function of its Config alone: no clock, no randomness but
// the seed. Instants inside it are nanoseconds of the producer's monotonic
// clock; a Clock translates them to wall time.
package model // import "github.com/phasecol/phasecol/cmd/stracegen/model"

import (
	"errors"
	"fmt"
	"time"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
)

// Runtimes a Config can name.
const (
	RuntimeTMR = "tmr"
	RuntimeHBG = "hbg"
	RuntimeSim = "sim"
)

// LevelNone prints no records of runs.
const LevelNone = "none"

// Config describes a simulated serving process. NewDefaultConfig gives every
// field a sensible value.
type Config struct {
	Seed       uint64
	Generation int
	// Runtime is "tmr", "hbg" or "sim".
	Runtime string
	// Level is "node", "network1" … "network3" or "none". Generations before 5
	// have no records of runs whatever this says.
	Level string
	// Ranks is the number of chip processes; DeviceBase the first one's device id.
	Ranks      int
	DeviceBase int
	// PIDBase is the API process's pid; the others follow. 0 draws one.
	PIDBase int32

	// Requests ends arrivals after so many, Duration after so long; 0 is no limit.
	Requests int
	Duration time.Duration
	// Rate is arrivals per second, exponentially spaced.
	Rate float64
	// Batch is the most sequences decoded at once, ChunkTokens the most prompt
	// tokens one step prefills.
	Batch       int
	ChunkTokens int
	Prompt      Dist
	Output      Dist

	// Shares of requests, 0 to 1. Error, Cancel, Reject and PD exclude each other.
	ErrorRate    float64
	CancelRate   float64
	RejectRate   float64
	PDRate       float64
	OneTokenRate float64
	CachedRate   float64
	UpstreamRate float64
	// Siblings is the most sequences of one request, SiblingRate the share of
	// requests that have more than one.
	Siblings    int
	SiblingRate float64
	// RunFailRate is the share of runs whose device reports an error.
	RunFailRate float64

	// TimeScale multiplies device and engine times: 0.1 is ten times faster.
	TimeScale float64
	// Pipeline is how many runs may overlap on a chip, 1 or 2.
	Pipeline int
	// DeviceSpans prints what the device stamped; TaskSlots so many task windows, 0 to 16.
	DeviceSpans bool
	TaskSlots   int
	// BindPhases prints the parts of bind as timing lines, as hbg does on request;
	// generations 6 to 8.
	BindPhases bool
	// Prewarm prints the record of a worker's warm-up.
	Prewarm bool
	// Ext prints records of a producer outside the runtime that name each
	// request of a step; generations 8 and 9.
	Ext bool
	// ReopenEvery closes and opens the worker after so many runs, which starts
	// inv, run_id and dispatch_id at 1 again; 0 never.
	ReopenEvery int
	// DropRate is the share of records a full queue loses; generation 9.
	DropRate float64
	// NoAnchors leaves out clock anchors where a generation prints them.
	NoAnchors bool

	// StartWall is the Unix time, StartMono the monotonic time of the start, nanoseconds.
	StartWall int64
	StartMono int64
	// SkewOffset is how far every anchor's wall time lies behind true time;
	// SkewPPM how much faster true time runs than the monotonic clock.
	SkewOffset time.Duration
	SkewPPM    float64

	// Model is the served model's name.
	Model string
}

// NewDefaultConfig returns a Config of a small two-rank service.
func NewDefaultConfig() Config {
	return Config{
		Seed:        1,
		Generation:  8,
		Runtime:     RuntimeTMR,
		Level:       "node",
		Ranks:       2,
		Requests:    100,
		Rate:        20,
		Batch:       16,
		ChunkTokens: 2048,
		Prompt:      MustDist("lognormal:512:0.6"),
		Output:      MustDist("8-64"),
		CachedRate:  0.2, UpstreamRate: 0.2,
		Siblings:  1,
		TimeScale: 1, Pipeline: 1,
		DeviceSpans: true, Prewarm: true,
		StartMono: 1_000_000_000_000,
		Model:     "demo-14b",
	}
}

// Validate tells the first field that is wrong, and what would be right.
func (c *Config) Validate() error {
	if c.Generation < logfmt.MinGeneration || c.Generation > logfmt.MaxGeneration {
		return fmt.Errorf("generation %d: must be between %d and %d", c.Generation, logfmt.MinGeneration, logfmt.MaxGeneration)
	}
	switch c.Runtime {
	case RuntimeTMR, RuntimeHBG, RuntimeSim:
	default:
		return fmt.Errorf("runtime %q: must be tmr, hbg or sim", c.Runtime)
	}
	switch c.Level {
	case "node", "network1", "network2", "network3", LevelNone:
	default:
		return fmt.Errorf("level %q: must be node, network1, network2, network3 or none", c.Level)
	}
	if err := c.validateNumbers(); err != nil {
		return err
	}
	if err := c.validateShares(); err != nil {
		return err
	}
	if c.Ext && c.Generation < 8 {
		return fmt.Errorf("ext: generation %d has no records of outside producers, use 8 or 9", c.Generation)
	}
	if c.DropRate > 0 && c.Generation < 9 {
		return fmt.Errorf("drop rate: generation %d declares no drops, use 9", c.Generation)
	}
	if c.BindPhases && (c.Runtime != RuntimeHBG || c.Generation < 6 || c.Generation > 8) {
		return errors.New("bind phases: only the hbg runtime of generations 6 to 8 prints such lines")
	}
	if c.Pipeline == 2 && c.Generation < 4 {
		return fmt.Errorf("pipeline: generation %d runs one at a time, use 4 or later", c.Generation)
	}
	if c.Pipeline == 2 && c.Runtime == RuntimeSim {
		return errors.New("pipeline: the simulated runtime runs one at a time, use tmr or hbg")
	}
	return nil
}

func (c *Config) validateNumbers() error {
	switch {
	case c.Ranks < 1 || c.Ranks > 1024:
		return fmt.Errorf("ranks %d: must be between 1 and 1024", c.Ranks)
	case c.DeviceBase < 0 || c.DeviceBase > 1<<20:
		return fmt.Errorf("device base %d: must be between 0 and %d", c.DeviceBase, 1<<20)
	case c.PIDBase < 0 || c.PIDBase > 1<<22:
		return fmt.Errorf("pid base %d: must be between 0 and %d", c.PIDBase, 1<<22)
	case c.Requests < 0 || c.Duration < 0:
		return errors.New("requests and duration: must not be negative, 0 is no limit")
	case !(c.Rate > 0) || c.Rate > 1e6:
		return fmt.Errorf("rate %v: must be above 0 and at most 1e6 requests per second", c.Rate)
	case c.Batch < 1 || c.Batch > 4096:
		return fmt.Errorf("batch %d: must be between 1 and 4096", c.Batch)
	case c.ChunkTokens < 1:
		return fmt.Errorf("chunk tokens %d: must be at least 1", c.ChunkTokens)
	case c.Prompt.a < 1 || c.Output.a < 1:
		return fmt.Errorf("prompt and output: %w", errDist)
	case c.Siblings < 1 || c.Siblings > 64:
		return fmt.Errorf("siblings %d: must be between 1 and 64", c.Siblings)
	case !(c.TimeScale >= 1e-4) || c.TimeScale > 1e3:
		return fmt.Errorf("time scale %v: must be between 0.0001 and 1000", c.TimeScale)
	case c.Pipeline != 1 && c.Pipeline != 2:
		return fmt.Errorf("pipeline %d: must be 1 or 2", c.Pipeline)
	case c.TaskSlots < 0 || c.TaskSlots > 16:
		return fmt.Errorf("task slots %d: must be between 0 and 16", c.TaskSlots)
	case c.ReopenEvery < 0:
		return fmt.Errorf("reopen every %d: must not be negative", c.ReopenEvery)
	case c.StartMono < 0 || c.StartWall < 0:
		return errors.New("start: must not lie before 1970, nor the monotonic start before 0")
	case !(c.SkewPPM >= -1e4 && c.SkewPPM <= 1e4):
		return fmt.Errorf("skew %v ppm: must be between -10000 and 10000", c.SkewPPM)
	}
	return nil
}

func (c *Config) validateShares() error {
	for _, s := range []struct {
		name string
		v    float64
	}{
		{"error rate", c.ErrorRate},
		{"cancel rate", c.CancelRate},
		{"reject rate", c.RejectRate},
		{"pd share", c.PDRate},
		{"one token rate", c.OneTokenRate},
		{"cached rate", c.CachedRate},
		{"upstream rate", c.UpstreamRate},
		{"sibling rate", c.SiblingRate},
		{"run fail rate", c.RunFailRate},
		{"drop rate", c.DropRate},
	} {
		if !(s.v >= 0 && s.v <= 1) {
			return fmt.Errorf("%s %v: must be between 0 and 1", s.name, s.v)
		}
	}
	if sum := c.ErrorRate + c.CancelRate + c.RejectRate + c.PDRate; sum > 1 {
		return fmt.Errorf("error, cancel, reject and pd rates exclude each other: their sum %v must not exceed 1", sum)
	}
	return nil
}

// levelWord is the first part of the run records' names, empty for none.
func (c *Config) levelWord() string {
	if c.Level == LevelNone {
		return ""
	}
	return logfmt.LevelWord(c.Generation, c.Level)
}

// anchored tells whether processes print clock anchors.
func (c *Config) anchored() bool {
	return !c.NoAnchors && c.Generation >= 6 && c.Generation <= 8
}
