// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package truth holds what a generated log and its request spans really mean:
// every invocation, run and request with exact times, and which host runs
// served which request phase. Tests compare a collector's output with it.
//
// All times are Unix nanoseconds of the true clock unless a name ends in
// _mono_ns (the producer's CLOCK_MONOTONIC, as the log has it) or starts with
// anchor_ (the wall time a reader gets from the process's clock anchor, which
// differs from the true one by the clock error asked for). Lengths end in _ns.
package truth // import "github.com/phasecol/phasecol/cmd/stracegen/truth"

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Version is the version of this format.
const Version = 1

// File is the whole ground truth of one simulated serving process.
type File struct {
	Version    int    `json:"version"`
	Seed       uint64 `json:"seed"`
	Generation int    `json:"generation"`
	Runtime    string `json:"runtime"`
	// Level is the first part of the names of the runs' records, such as
	// "node"; empty where none are printed.
	Level    string `json:"level"`
	Root     string `json:"root"`
	HostName string `json:"host_name,omitempty"`
	Pod      *Pod   `json:"pod,omitempty"`
	// Interrupted is set when generation was stopped before its end; requests
	// then in flight are absent, runs already printed are present.
	Interrupted bool `json:"interrupted,omitempty"`

	Processes   []Process    `json:"processes"`
	Invocations []Invocation `json:"invocations"`
	Runs        []Run        `json:"runs"`
	Requests    []Request    `json:"requests"`
	Files       []LogFile    `json:"files,omitempty"`
	Totals      Totals       `json:"totals"`
}

// Pod is the identity in a container log's path.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Container string `json:"container"`
}

// Process is one simulated process.
type Process struct {
	PID int32 `json:"pid"`
	// Role is "api", "engine" or "chip". With one rank and no level records the
	// engine runs the chip itself and both roles share a pid.
	Role string `json:"role"`
	// Worker and Device are set on chips: the rank and the device id.
	Worker int   `json:"worker"`
	Device int32 `json:"device"`
	Clock  Clock `json:"clock"`
}

// Clock relates a process's monotonic clock to true and to anchored wall time.
type Clock struct {
	// Anchored tells whether the log holds an anchor for this pid.
	Anchored     bool  `json:"anchored"`
	AnchorMonoNS int64 `json:"anchor_mono_ns"`
	AnchorWallNS int64 `json:"anchor_wall_ns"`
	// TrueWallNS is the true wall time at AnchorMonoNS.
	TrueWallNS int64 `json:"true_wall_ns"`
	// PPM is how much faster true time runs than the monotonic clock.
	PPM float64 `json:"ppm"`
}

// Invocation is one run of a callable on one chip.
type Invocation struct {
	PID        int32  `json:"pid"`
	Worker     int    `json:"worker"`
	Device     int32  `json:"device"`
	Inv        uint64 `json:"inv"`
	HID        string `json:"hid"`
	Callable   string `json:"callable"`
	Root       string `json:"root"`
	RunID      uint64 `json:"run_id"`
	DispatchID uint64 `json:"dispatch_id"`
	SlotID     int    `json:"slot_id"`
	Lease      uint64 `json:"generation"`
	// Epoch counts how often this process has opened its worker; inv, run_id and
	// dispatch_id start again at 1 in each.
	Epoch int `json:"epoch"`
	// Failed is set when the device reported an error: no device records then.
	Failed bool `json:"failed,omitempty"`
	// Records and Lost are the numbers of records printed and dropped.
	Records int `json:"records"`
	Lost    int `json:"lost,omitempty"`

	StartMonoNS   int64 `json:"start_mono_ns"`
	StartNS       int64 `json:"start_ns"`
	EndNS         int64 `json:"end_ns"`
	AnchorStartNS int64 `json:"anchor_start_ns"`
	DurationNS    int64 `json:"duration_ns"`

	DeviceBlock *DeviceBlock `json:"device_block,omitempty"`
	// Phases are the lengths of the host and device spans by stage, in the
	// vocabulary shared by all generations ("run.bind", "run.runner_run.device_wall.orch").
	Phases map[string]int64 `json:"phases_ns"`
}

// DeviceBlock is the device's part of an invocation.
type DeviceBlock struct {
	WallNS int64 `json:"wall_ns"`
	// EffectiveNS is the length of orch and sched together, 0 where neither is stamped.
	EffectiveNS int64 `json:"effective_ns,omitempty"`
	// StartNS and EndNS are where the device really was busy.
	StartNS int64 `json:"start_ns"`
	EndNS   int64 `json:"end_ns"`
	// PlacedStartNS and PlacedEndNS are the earliest place the log allows:
	// the later of runner_run's start and aicpu_launch; SlackNS is the room behind it.
	PlacedStartNS int64 `json:"placed_start_ns"`
	PlacedEndNS   int64 `json:"placed_end_ns"`
	SlackNS       int64 `json:"slack_ns"`
	// Ticks of the device's counter, generation 9 only.
	StartCycle uint64 `json:"start_cycle,omitempty"`
	EndCycle   uint64 `json:"end_cycle,omitempty"`
	CounterHz  uint64 `json:"counter_hz,omitempty"`
}

// Run is one step of the engine over all ranks.
type Run struct {
	RunID uint64 `json:"run_id"`
	// PID prints the run's own records; 0 where there are none.
	PID      int32  `json:"pid"`
	Callable string `json:"callable"`
	Epoch    int    `json:"epoch"`
	Failed   bool   `json:"failed,omitempty"`
	Batch    int    `json:"batch"`
	// StartNS and EndNS span the run's own records, which contain its
	// invocations; without such records they span the invocations.
	StartMonoNS int64 `json:"start_mono_ns"`
	StartNS     int64 `json:"start_ns"`
	EndNS       int64 `json:"end_ns"`
	DurationNS  int64 `json:"duration_ns"`
	Records     int   `json:"records"`
	Lost        int   `json:"lost,omitempty"`
	// Invocations are indexes into File.Invocations, in rank order.
	Invocations []int `json:"invocations"`
	// CriticalPID is the process whose invocation ended last; RankSkewNS the
	// distance from the first end to the last.
	CriticalPID int32 `json:"critical_pid"`
	RankSkewNS  int64 `json:"rank_skew_ns"`
}

// Request is one HTTP request.
type Request struct {
	ID      string `json:"id"`
	TraceID string `json:"trace_id"`
	SpanID  string `json:"span_id"`
	// ParentSpanID names an upstream span that nobody will ever send.
	ParentSpanID string `json:"parent_span_id,omitempty"`
	ParentFlags  *byte  `json:"parent_flags,omitempty"`
	TraceState   string `json:"trace_state,omitempty"`
	Outcome      string `json:"outcome"`
	HTTPStatus   int    `json:"http_status"`
	ErrorType    string `json:"error_type,omitempty"`
	// Unsupported is "pd" for prefill/decode-split requests, which have no engine spans.
	Unsupported string     `json:"unsupported,omitempty"`
	PID         int32      `json:"pid"`
	StartNS     int64      `json:"start_ns"`
	EndNS       int64      `json:"end_ns"`
	Sequences   []Sequence `json:"sequences,omitempty"`
}

// Sequence is one engine sequence of a request and its engine.request span.
type Sequence struct {
	SequenceID       int64   `json:"sequence_id"`
	SpanID           string  `json:"span_id"`
	PID              int32   `json:"pid"`
	StartNS          int64   `json:"start_ns"`
	EndNS            int64   `json:"end_ns"`
	FinishReason     string  `json:"finish_reason"`
	ErrorType        string  `json:"error_type,omitempty"`
	PromptTokens     int     `json:"prompt_tokens"`
	CachedTokens     int     `json:"cached_tokens"`
	CompletionTokens int     `json:"completion_tokens"`
	Phases           []Phase `json:"phases"`

	// Seconds, 0 where there is no such thing: TTFT only once a token came out,
	// TPOT only for more than one token and a normal end.
	QueueSeconds   float64 `json:"queue_seconds"`
	PrefillSeconds float64 `json:"prefill_seconds"`
	DecodeSeconds  float64 `json:"decode_seconds"`
	TTFTSeconds    float64 `json:"ttft_seconds"`
	TPOTSeconds    float64 `json:"tpot_seconds"`
	E2ESeconds     float64 `json:"e2e_seconds"`

	// Sums over prefill_forward and decode_forward.
	HostRuns     int   `json:"host_runs"`
	Steps        int   `json:"steps"`
	HostBusyNS   int64 `json:"host_busy_ns"`
	DeviceBusyNS int64 `json:"device_busy_ns"`
	EngineGapNS  int64 `json:"engine_gap_ns"`
}

// Phase is one phase span of a sequence.
type Phase struct {
	Name    string `json:"name"`
	SpanID  string `json:"span_id"`
	StartNS int64  `json:"start_ns"`
	EndNS   int64  `json:"end_ns"`
	Error   bool   `json:"error,omitempty"`

	// What overlapped the phase, by true time, intervals half open; only on
	// prefill_forward and decode_forward. Invocations and Runs index File's.
	HostRuns    int   `json:"host_runs"`
	Steps       int   `json:"steps"`
	Invocations []int `json:"invocations,omitempty"`
	Runs        []int `json:"runs,omitempty"`
	// Unions over all ranks, clipped to the phase. DeviceBusyNS is by the placed
	// device blocks, DeviceTrueNS by where the devices really were busy.
	HostBusyNS   int64 `json:"host_busy_ns"`
	DeviceBusyNS int64 `json:"device_busy_ns"`
	DeviceTrueNS int64 `json:"device_true_ns"`
	EngineGapNS  int64 `json:"engine_gap_ns"`
	// Own are the runs that really worked for this sequence in this phase: a
	// subset of Runs, since others' steps overlap too. OwnHostRuns counts their
	// invocations, OwnHostBusyNS and OwnDeviceBusyNS are unions over those, clipped
	// to the phase: what a join by perfect evidence finds.
	Own             []int `json:"own_runs,omitempty"`
	OwnHostRuns     int   `json:"own_host_runs,omitempty"`
	OwnHostBusyNS   int64 `json:"own_host_busy_ns,omitempty"`
	OwnDeviceBusyNS int64 `json:"own_device_busy_ns,omitempty"`
}

// LogFile is one file as written, rotated ones included.
type LogFile struct {
	Path    string `json:"path"`
	Lines   int64  `json:"lines"`
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"`
}

// Totals count what was written and sent.
type Totals struct {
	Records     int64 `json:"records"`
	LostRecords int64 `json:"lost_records,omitempty"`
	Points      int64 `json:"points,omitempty"`
	Anchors     int64 `json:"anchors"`
	Invocations int64 `json:"invocations"`
	Runs        int64 `json:"runs"`
	Requests    int64 `json:"requests"`
	Spans       int64 `json:"spans"`
	Lines       int64 `json:"lines"`
	NoiseLines  int64 `json:"noise_lines,omitempty"`
}

// Read reads a file written by Write.
func Read(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading ground truth: %w", err)
	}
	var f File
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("decoding ground truth %s: %w", path, err)
	}
	if f.Version != Version {
		return nil, fmt.Errorf("ground truth %s: version %d, this package reads version %d", path, f.Version, Version)
	}
	return &f, nil
}

// Write writes f as one line of JSON.
func (f *File) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	if err := enc.Encode(f); err != nil {
		return fmt.Errorf("encoding ground truth: %w", err)
	}
	return nil
}
