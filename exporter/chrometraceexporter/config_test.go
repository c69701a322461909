// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/phasecol/phasecol/exporter/chrometraceexporter/internal/metadata"
)

func TestLoadConfig(t *testing.T) {
	full := createDefaultConfig().(*Config)
	full.Directory = "./run/timeline"
	full.Prefix = "npu"
	full.FlushInterval = 250 * time.Millisecond
	full.Compression = CompressionGzip
	full.Rotation = RotationConfig{MaxMegabytes: 64, MaxAge: 10 * time.Minute, MaxBackups: 24}
	full.Lanes = LanesConfig{
		MaxProcesses: 10, MaxThreads: 20, MaxSlots: 4, MaxTraces: 30, FlowMemory: 40, MaxValueBytes: 100,
		AsyncSpans: []string{"my.request"}, LabelAttributes: []string{"role", "rank"}, Copies: CopiesNest,
	}
	full.QueueConfig = configoptional.None[exporterhelper.QueueBatchConfig]()
	full.RetryConfig.Enabled = false
	minimal := createDefaultConfig().(*Config)
	minimal.Directory = "./run/timeline"

	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	for id, want := range map[component.ID]*Config{
		component.NewID(metadata.Type):                 minimal,
		component.NewIDWithName(metadata.Type, "full"): full,
	} {
		t.Run(id.String(), func(t *testing.T) {
			sub, err := conf.Sub(id.String())
			require.NoError(t, err)
			cfg := createDefaultConfig()
			require.NoError(t, sub.Unmarshal(cfg))
			require.NoError(t, confmap.Validate(cfg))
			assert.Equal(t, want, cfg)
		})
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"directory is empty":                           func(c *Config) { c.Directory = "" },
		`prefix "a/b" must be`:                         func(c *Config) { c.Prefix = "a/b" },
		"flush_interval -1s must be 0":                 func(c *Config) { c.FlushInterval = -time.Second },
		`compression "zstd" must be none or gzip`:      func(c *Config) { c.Compression = "zstd" },
		"rotation::max_megabytes 0 must be 1":          func(c *Config) { c.Rotation.MaxMegabytes = 0 },
		"rotation::max_age -1s must be 0":              func(c *Config) { c.Rotation.MaxAge = -time.Second },
		"rotation::max_backups -1 must be 0":           func(c *Config) { c.Rotation.MaxBackups = -1 },
		"lanes::max_processes 0 must be from 1":        func(c *Config) { c.Lanes.MaxProcesses = 0 },
		"lanes::max_threads 0 must be from 1":          func(c *Config) { c.Lanes.MaxThreads = 0 },
		"lanes::max_slots 2000 must be from 1 to 1024": func(c *Config) { c.Lanes.MaxSlots = 2000 },
		"lanes::max_traces 0 must be from 1":           func(c *Config) { c.Lanes.MaxTraces = 0 },
		"lanes::flow_memory 0 must be from 1":          func(c *Config) { c.Lanes.FlowMemory = 0 },
		"lanes::max_value_bytes 4 must be from 16":     func(c *Config) { c.Lanes.MaxValueBytes = 4 },
		`lanes::copies "maybe" must be`:                func(c *Config) { c.Lanes.Copies = "maybe" },
	} {
		t.Run(want, func(t *testing.T) {
			cfg := createDefaultConfig().(*Config)
			cfg.Directory = "d"
			require.NoError(t, cfg.Validate())
			change(cfg)
			require.ErrorContains(t, cfg.Validate(), want)
		})
	}
}
