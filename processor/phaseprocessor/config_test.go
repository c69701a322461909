// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package phaseprocessor

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/phasecol/phasecol/processor/phaseprocessor/internal/metadata"
)

func load(t *testing.T, name string) *Config {
	t.Helper()
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	sub, err := conf.Sub(name)
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, sub.Unmarshal(cfg))
	require.NoError(t, cfg.Validate())
	return cfg
}

func TestLoadConfig(t *testing.T) {
	require.Equal(t, createDefaultConfig(), load(t, "phase"))
	require.Empty(t, load(t, "phase/no_engines").Engines)

	want := createDefaultConfig().(*Config)
	want.Engines = []EngineConfig{
		{Preset: "sglang", Services: []string{"sglang"}},
		{
			Preset: "vllm",
			Spans:  map[string][]string{"engine": {"llm_request", "generate_*_call"}},
			Keys: map[string][]KeyConfig{
				"prefill":    {{Key: "gen_ai.latency.time_in_model_prefill", Unit: "ns"}},
				"request_id": {{Key: "request_id"}},
			},
		},
	}
	want.Contract.Tolerance = 2 * time.Millisecond
	want.Join = JoinConfig{
		Enabled: true, GroupBy: []string{"k8s.node.name"}, Wait: time.Second, Retention: time.Minute,
		RemoteClockError: time.Millisecond, MaxLinks: 8, Embed: 2, MaxRequests: 100, MaxRequestSpans: 1000,
		MaxRuns: 5000, MaxEmbedSpans: 2000, MaxPieceSpans: 300,
	}
	want.Callable.Names = map[string]string{"8f3a11c07be2d945": "decode_layer"}
	want.MaxProcesses = 64
	want.Retry.InitialInterval = time.Second
	want.Retry.MaxInterval = 10 * time.Second
	want.Retry.MaxElapsedTime = 20 * time.Second
	require.Equal(t, want, load(t, "phase/all"))
}

// Every message names the field and what to do.
func TestValidate(t *testing.T) {
	for _, test := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Engines[0].Preset = "tgi" }, `engines::0: preset "tgi" is unknown: use atom, vllm, sglang`},
		{func(c *Config) { c.Engines[0].Spans = map[string][]string{"http": {"x"}} }, "engines::0: spans::http is no role: use decode, engine, prefill, queue, request, thread"},
		{func(c *Config) { c.Engines[0].Spans = map[string][]string{"engine": {""}} }, "engines::0: spans::engine has an empty name: give the span's name, * for any text"},
		{func(c *Config) { c.Engines[0].Keys = map[string][]KeyConfig{"tpot": nil} }, "engines::0: keys::tpot is no field: use decode, e2e, error_type, finish_reason, output_tokens, prefill, queue, request_id, sequence_id, status_code, ttft, unsupported"},
		{func(c *Config) { c.Engines[0].Keys = map[string][]KeyConfig{"ttft": {{Key: "a"}}} }, `engines::0: keys::ttft: unit "" of "a" is unknown: use s, ms, us or ns`},
		{func(c *Config) { c.Engines[0].Keys = map[string][]KeyConfig{"ttft": {{Unit: "s"}}} }, "engines::0: keys::ttft: key is empty: give the attribute's name"},
		{func(c *Config) { c.Engines[0].Keys = map[string][]KeyConfig{"request_id": {{Key: "a", Unit: "s"}}} }, `engines::0: keys::request_id: unit "s" is given for "a", which is no duration: leave it out`},
		{func(c *Config) { c.Contract.Tolerance = -1 }, "contract::tolerance is -1ns: it must not be negative"},
		{func(c *Config) { c.MaxProcesses = 0 }, "max_processes is 0: it must be at least 1"},
		{func(c *Config) { c.Join.GroupBy = nil }, "join::group_by has 0 attributes: give 1 to 4"},
		{func(c *Config) { c.Join.GroupBy = []string{"a", "b", "c", "d", "e"} }, "join::group_by has 5 attributes: give 1 to 4"},
		{func(c *Config) { c.Join.GroupBy = []string{""} }, "join::group_by has an empty entry: give the name of a resource attribute"},
		{func(c *Config) { c.Join.Wait = -1 }, "join::wait is -1ns: it must not be negative, 0 holds nothing"},
		{func(c *Config) { c.Join.Retention = time.Second }, "join::retention is 1s: it must be longer than wait (2s)"},
		{func(c *Config) { c.Join.RemoteClockError = -1 }, "join::remote_clock_error is -1ns: it must not be negative"},
		{func(c *Config) { c.Join.MaxLinks = -1 }, "join::max_links is -1: it must be at least 0"},
		{func(c *Config) { c.Join.Embed = -1 }, "join::embed is -1: it must be at least 0"},
		{func(c *Config) { c.Join.MaxRequests = 0 }, "join::max_requests is 0: it must be at least 1"},
		{func(c *Config) { c.Join.MaxRequestSpans = 0 }, "join::max_request_spans is 0: it must be at least 1"},
		{func(c *Config) { c.Join.MaxRuns = 0 }, "join::max_runs is 0: it must be at least 1"},
		{func(c *Config) { c.Join.MaxEmbedSpans = -1 }, "join::max_embed_spans is -1: it must be at least 0"},
		{func(c *Config) { c.Join.MaxPieceSpans = -1 }, "join::max_piece_spans is -1: it must be at least 0"},
		{func(c *Config) { c.Callable.Names = map[string]string{"0xAB": "x"} }, `callable::names has the key "0xAB": give the hid in lower-case hex, as in strace.hid`},
		{func(c *Config) { c.Callable.Names = map[string]string{"00": "x"} }, "callable::names has the hid 0: it names nothing, some runtimes never set it"},
		{func(c *Config) { c.Callable.Names = map[string]string{"ab": ""} }, "callable::names::ab is empty: give the callable's name"},
	} {
		cfg := createDefaultConfig().(*Config)
		test.change(cfg)
		require.EqualError(t, cfg.Validate(), test.want)
	}
}

func TestFactory(t *testing.T) {
	factory := NewFactory()
	require.Equal(t, component.MustNewType("phase"), factory.Type())
	set := processortest.NewNopSettings(metadata.Type)
	p, err := factory.CreateTraces(t.Context(), set, factory.CreateDefaultConfig(), consumertest.NewNop())
	require.NoError(t, err)
	require.True(t, p.Capabilities().MutatesData)
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, p.Shutdown(t.Context()))

	_, err = factory.CreateTraces(t.Context(), set, &struct{}{}, consumertest.NewNop())
	require.EqualError(t, err, "phase: the configuration is of another component")
	cfg := createDefaultConfig().(*Config)
	cfg.Engines[0].Preset = ""
	_, err = factory.CreateTraces(t.Context(), set, cfg, consumertest.NewNop())
	require.ErrorContains(t, err, "engines::0: preset")
}
