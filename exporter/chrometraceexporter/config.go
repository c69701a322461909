// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
)

// Compression names what happens to a file once it is rotated.
type Compression string

// Values of Compression.
const (
	CompressionNone Compression = "none"
	CompressionGzip Compression = "gzip"
)

// Copies says what becomes of spans that the phase processor copied into a
// request's trace (attribute phase.copy).
type Copies string

// Values of Copies.
const (
	// CopiesExclude leaves them out: the originals are on the timeline.
	CopiesExclude Copies = "exclude"
	// CopiesNest shows them inside the request's track, under their phase.
	CopiesNest Copies = "nest"
)

// Config of the exporter.
type Config struct {
	// Directory holds the trace files. It is made when absent. Required.
	Directory string `mapstructure:"directory"`
	// Prefix starts every file's name; the live file is <prefix>.json.
	Prefix string `mapstructure:"prefix"`
	// FlushInterval is how long an event may wait in memory before it is
	// written. Zero writes every batch before it is acknowledged.
	FlushInterval time.Duration `mapstructure:"flush_interval"`
	// Compression of rotated files: none or gzip.
	Compression Compression `mapstructure:"compression"`
	// Rotation says when the live file is put away, and how many stay.
	Rotation RotationConfig `mapstructure:"rotation"`
	// Lanes bounds and shapes the picture.
	Lanes LanesConfig `mapstructure:"lanes"`

	// QueueConfig is exporterhelper's sending_queue.
	QueueConfig configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`
	// RetryConfig is exporterhelper's retry_on_failure.
	RetryConfig configretry.BackOffConfig `mapstructure:"retry_on_failure"`

	_ struct{}
}

// RotationConfig says when the live file is put away, and how many stay.
type RotationConfig struct {
	// MaxMegabytes (of 1024*1024 bytes) a file grows to. A file may exceed it
	// by one tree of spans on one lane. 1 or more.
	MaxMegabytes int `mapstructure:"max_megabytes"`
	// MaxAge of the live file; zero means no limit.
	MaxAge time.Duration `mapstructure:"max_age"`
	// MaxBackups is how many rotated files stay; zero keeps all.
	MaxBackups int `mapstructure:"max_backups"`

	_ struct{}
}

// LanesConfig bounds and shapes the picture.
type LanesConfig struct {
	// MaxProcesses at one time; spans of further resources share one process.
	MaxProcesses int `mapstructure:"max_processes"`
	// MaxThreads is the number of thread lanes, slots included; further spans
	// become asynchronous tracks.
	MaxThreads int `mapstructure:"max_threads"`
	// MaxSlots is how many lanes one thread may be split into.
	MaxSlots int `mapstructure:"max_slots"`
	// MaxTraces is how many traces' asynchronous tracks are remembered, so
	// that spans arriving late join their request's track.
	MaxTraces int `mapstructure:"max_traces"`
	// FlowMemory is how many ends of possible arrows are remembered, and how
	// many arrows may wait for their other end.
	FlowMemory int `mapstructure:"flow_memory"`
	// MaxValueBytes of one attribute value; longer ones are cut.
	MaxValueBytes int `mapstructure:"max_value_bytes"`
	// AsyncSpans are names of spans that are drawn as asynchronous tracks even
	// though they carry a thread id.
	AsyncSpans []string `mapstructure:"async_spans"`
	// LabelAttributes are resource attributes added to a process's label.
	LabelAttributes []string `mapstructure:"label_attributes"`
	// Copies says what becomes of spans copied into a request's trace.
	Copies Copies `mapstructure:"copies"`

	_ struct{}
}

var _ component.Config = (*Config)(nil)

func createDefaultConfig() component.Config {
	queue := exporterhelper.NewDefaultQueueConfig()
	// One consumer: the file is written by one hand, and spans stay in order.
	queue.NumConsumers = 1
	queue.Sizer = exporterhelper.RequestSizerTypeItems
	queue.QueueSize = 100_000
	return &Config{
		Prefix:        "trace",
		FlushInterval: time.Second,
		Compression:   CompressionNone,
		Rotation:      RotationConfig{MaxMegabytes: 100, MaxAge: time.Hour, MaxBackups: 10},
		Lanes: LanesConfig{
			MaxProcesses:    1024,
			MaxThreads:      8192,
			MaxSlots:        16,
			MaxTraces:       16384,
			FlowMemory:      65536,
			MaxValueBytes:   512,
			AsyncSpans:      []string{"atom.request", "engine.request", "llm_request"},
			LabelAttributes: []string{"rank"},
			Copies:          CopiesExclude,
		},
		QueueConfig: configoptional.Some(queue),
		RetryConfig: configretry.NewDefaultBackOffConfig(),
	}
}

// Validate reports every setting that cannot work, and what would.
func (c *Config) Validate() error {
	var errs []error
	if c.Directory == "" {
		errs = append(errs, errors.New("directory is empty: name the folder the trace files go to"))
	}
	if c.Prefix == "" || strings.ContainsAny(c.Prefix, `/\`) {
		errs = append(errs, fmt.Errorf("prefix %q must be a file name's beginning, without a slash", c.Prefix))
	}
	if c.FlushInterval < 0 {
		errs = append(errs, fmt.Errorf("flush_interval %s must be 0 (write every batch at once) or more", c.FlushInterval))
	}
	if c.Compression != CompressionNone && c.Compression != CompressionGzip {
		errs = append(errs, fmt.Errorf("compression %q must be none or gzip", c.Compression))
	}
	errs = append(errs, c.Rotation.validate(), c.Lanes.validate())
	return errors.Join(errs...)
}

func (c *RotationConfig) validate() error {
	var errs []error
	if c.MaxMegabytes < 1 {
		errs = append(errs, fmt.Errorf("rotation::max_megabytes %d must be 1 or more", c.MaxMegabytes))
	}
	if c.MaxAge < 0 {
		errs = append(errs, fmt.Errorf("rotation::max_age %s must be 0 (no limit) or more", c.MaxAge))
	}
	if c.MaxBackups < 0 {
		errs = append(errs, fmt.Errorf("rotation::max_backups %d must be 0 (keep all) or more", c.MaxBackups))
	}
	return errors.Join(errs...)
}

func (c *LanesConfig) validate() error {
	var errs []error
	for _, bound := range []struct {
		name     string
		value    int
		min, max int
	}{
		{"max_processes", c.MaxProcesses, 1, 1 << 20},
		{"max_threads", c.MaxThreads, 1, 1 << 20},
		{"max_slots", c.MaxSlots, 1, 1024},
		{"max_traces", c.MaxTraces, 1, 1 << 24},
		{"flow_memory", c.FlowMemory, 1, 1 << 24},
		{"max_value_bytes", c.MaxValueBytes, 16, 2048},
	} {
		if bound.value < bound.min || bound.value > bound.max {
			errs = append(errs, fmt.Errorf("lanes::%s %d must be from %d to %d", bound.name, bound.value, bound.min, bound.max))
		}
	}
	if c.Copies != CopiesExclude && c.Copies != CopiesNest {
		errs = append(errs, fmt.Errorf("lanes::copies %q must be exclude or nest", c.Copies))
	}
	return errors.Join(errs...)
}
