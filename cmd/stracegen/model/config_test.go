// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDefaultIsValid(t *testing.T) {
	c := NewDefaultConfig()
	require.NoError(t, c.Validate())
}

func TestValidateNamesTheField(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"generation 10: must be between 1 and 9":        func(c *Config) { c.Generation = 10 },
		"generation 0: must be":                         func(c *Config) { c.Generation = 0 },
		`runtime "cuda": must be tmr, hbg or sim`:       func(c *Config) { c.Runtime = "cuda" },
		`level "l3": must be node`:                      func(c *Config) { c.Level = "l3" },
		"ranks 0: must be between 1 and 1024":           func(c *Config) { c.Ranks = 0 },
		"device base -1":                                func(c *Config) { c.DeviceBase = -1 },
		"pid base -1":                                   func(c *Config) { c.PIDBase = -1 },
		"requests and duration":                         func(c *Config) { c.Requests = -1 },
		"rate 0":                                        func(c *Config) { c.Rate = 0 },
		"rate NaN":                                      func(c *Config) { c.Rate = math.NaN() },
		"batch 0":                                       func(c *Config) { c.Batch = 0 },
		"chunk tokens 0":                                func(c *Config) { c.ChunkTokens = 0 },
		"prompt and output: want N":                     func(c *Config) { c.Prompt = Dist{} },
		"siblings 0":                                    func(c *Config) { c.Siblings = 0 },
		"time scale 0":                                  func(c *Config) { c.TimeScale = 0 },
		"pipeline 3: must be 1 or 2":                    func(c *Config) { c.Pipeline = 3 },
		"task slots 17":                                 func(c *Config) { c.TaskSlots = 17 },
		"reopen every -1":                               func(c *Config) { c.ReopenEvery = -1 },
		"start: must not":                               func(c *Config) { c.StartMono = -1 },
		"skew NaN ppm":                                  func(c *Config) { c.SkewPPM = math.NaN() },
		"error rate 1.5: must be between 0 and 1":       func(c *Config) { c.ErrorRate = 1.5 },
		"drop rate NaN":                                 func(c *Config) { c.DropRate = math.NaN() },
		"their sum 1.2 must not exceed 1":               func(c *Config) { c.ErrorRate, c.CancelRate = 0.6, 0.6 },
		"ext: generation 7 has no records":              func(c *Config) { c.Ext, c.Generation = true, 7 },
		"drop rate: generation 8 declares no drops":     func(c *Config) { c.DropRate = 0.1 },
		"bind phases: only the hbg runtime":             func(c *Config) { c.BindPhases = true },
		"pipeline: generation 3 runs one at a time":     func(c *Config) { c.Pipeline, c.Generation = 2, 3 },
		"pipeline: the simulated runtime runs one at a": func(c *Config) { c.Pipeline, c.Runtime = 2, RuntimeSim },
	} {
		c := NewDefaultConfig()
		change(&c)
		require.ErrorContains(t, c.Validate(), want)
		_, err := New(c)
		require.Error(t, err)
	}
}

func TestDist(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(s string, n int) (lo, hi int, mean float64) {
		d, err := ParseDist(s)
		require.NoError(t, err)
		require.Equal(t, s, d.String())
		lo = 1 << 30
		for range n {
			v := d.draw(r)
			lo, hi, mean = min(lo, v), max(hi, v), mean+float64(v)/float64(n)
		}
		return lo, hi, mean
	}
	lo, hi, _ := draw("17", 10)
	assert.Equal(t, [2]int{17, 17}, [2]int{lo, hi})
	lo, hi, mean := draw("5-9", 10_000)
	assert.Equal(t, [2]int{5, 9}, [2]int{lo, hi})
	assert.InDelta(t, 7, mean, 0.1)
	lo, _, mean = draw("lognormal:100:0.5", 20_000)
	assert.GreaterOrEqual(t, lo, 1)
	assert.InDelta(t, 100*math.Exp(0.125), mean, 3)
	for _, bad := range []string{"", "x", "0", "-3", "9-5", "0-5", "5-", "lognormal", "lognormal:5", "lognormal:0:1", "lognormal:5:-1", "lognormal:5:NaN"} {
		_, err := ParseDist(bad)
		require.ErrorContains(t, err, "want N, MIN-MAX or lognormal", bad)
	}
	assert.Panics(t, func() { MustDist("nope") })
}
