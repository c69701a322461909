// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/phasecol/phasecol/internal/stracepdata/settings"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/metadata"
)

func load(t *testing.T, name string) (*Config, error) {
	t.Helper()
	all, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	sub, err := all.Sub(component.NewIDWithName(metadata.Type, name).String())
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	if err := sub.Unmarshal(cfg); err != nil {
		return nil, err
	}
	return cfg, confmap.Validate(cfg)
}

func TestLoadConfig(t *testing.T) {
	cfg, err := load(t, "")
	require.NoError(t, err)
	want := createDefaultConfig().(*Config)
	want.Include = []string{"/var/log/pods/*/*/*.log*"}
	assert.Equal(t, want, cfg)
	assert.Equal(t, &Config{
		Include: want.Include, StartAt: "end", PollInterval: 200 * time.Millisecond, MaxConcurrentFiles: 1024,
		Compression: "auto", Format: "auto", ServiceName: "simpler",
		Clock:  settings.Clock{Sources: []string{"anchor", "record", "host", "mtime"}, OnNone: "refuse"},
		Linger: 250 * time.Millisecond, MaxOpen: time.Minute, StitchWait: time.Second,
		Limits: settings.Limits{Invocations: 100_000, Runs: 10_000, Bytes: 64 << 20, Processes: 4096, Scopes: 1024},
		RetryOnFailure: configretry.BackOffConfig{
			Enabled: true, InitialInterval: 5 * time.Second, RandomizationFactor: 0.5, Multiplier: 1.5, MaxInterval: 30 * time.Second,
		},
	}, cfg)

	cfg, err = load(t, "all")
	require.NoError(t, err)
	storage := component.MustNewID("file_storage")
	assert.Equal(t, &Config{
		Include: []string{"/logs/**/host*.log*", "/var/log/pods/*/*/*.log*"}, Exclude: []string{"/logs/old/**"},
		StartAt: "beginning", PollInterval: time.Second, MaxConcurrentFiles: 64, Compression: "none", Format: "cri",
		Storage: &storage, ServiceName: "npu-runtime", HostName: "node-7", IncludeFilePath: true,
		Clock:  settings.Clock{Sources: []string{"record", "anchor"}, TimeZone: "Asia/Shanghai", OnNone: "read_time"},
		Linger: time.Second, MaxOpen: 2 * time.Minute, StitchWait: 5 * time.Second,
		Limits: settings.Limits{Invocations: 10, Runs: 20, Bytes: 30_000_000, Processes: 40, Scopes: 50},
		RetryOnFailure: configretry.BackOffConfig{
			InitialInterval: 2 * time.Second, RandomizationFactor: 0.5, Multiplier: 1.5, MaxInterval: 10 * time.Second, MaxElapsedTime: time.Minute,
		},
	}, cfg)
}

func TestInvalidConfig(t *testing.T) {
	for name, want := range map[string][]string{
		"no_include":  {"include: at least one glob pattern is required, for example /var/log/pods/*/*/*.log*"},
		"bad_pattern": {"include, exclude: "},
		"bad_enums": {
			`start_at: must be one of beginning, end, is "middle"`,
			`format: must be one of auto, raw, cri, docker, is "json"`,
			`compression: must be one of auto, gzip, none, is "zstd"`,
		},
		"bad_times": {
			"poll_interval: must be more than 0, is 0s",
			"linger: must not exceed max_open (1m0s), is 2m0s",
			"stitch_wait: must be more than 0, is -1s",
		},
		"bad_clock": {
			`clock: sources: must be of anchor, record, host, mtime, each once; got "gps"`,
			"time_zone: must be an IANA name such as Asia/Shanghai or UTC",
			`on_none: must be one of refuse, read_time, is "guess"`,
		},
		"bad_limits": {"max_concurrent_files: must be at least 1, is 0", "limits: bytes: must be at least 1, is 0"},
		"bad_retry":  {"retry_on_failure: 'initial_interval' must be non-negative"},
		"unknown":    {"includes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, name)
			for _, w := range want {
				require.ErrorContains(t, err, w)
			}
		})
	}
}

func TestFormats(t *testing.T) {
	for name, want := range map[string]container.Format{"auto": container.Auto, "raw": container.Raw, "cri": container.CRI, "docker": container.Docker} {
		assert.Equal(t, want, (&Config{Format: name}).format())
	}
}

// TestFileReader: the settings on which the split function and durability
// depend.
func TestFileReader(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Include = []string{"x.log"}
	fc := (&stracelogReceiver{cfg: cfg}).fileconsumerConfig()
	assert.Zero(t, fc.FlushPeriod, "a line that is still being written waits")
	assert.Equal(t, "nop", fc.Encoding, "bytes come as they are")
	assert.Equal(t, "read_whole_file", fc.OnTruncate)
	assert.Equal(t, "auto", fc.Compression)
	assert.Zero(t, fc.MaxBatches, "every poll must end in a checkpoint")
	cfg.Compression = "none"
	assert.Empty(t, (&stracelogReceiver{cfg: cfg}).fileconsumerConfig().Compression)
}
