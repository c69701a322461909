// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/phasecol/phasecol/cmd/stracegen/logfmt"

// Event is something that happened at a monotonic instant. Exactly one of its
// pointers is set.
type Event struct {
	At int64
	// Record is printed at At. It is valid during the callback only.
	Record *logfmt.Record
	// Process appears before its first record.
	Process *Process
	// Invocation and Run appear when all of their records have.
	Invocation *Invocation
	Run        *Run
	// Sequence appears when it terminates, its Request when HTTP is done with
	// it, which is after all of its sequences.
	Sequence *Sequence
	Request  *Request
}

// Process is a simulated process.
type Process struct {
	PID    int32
	Role   string // api, engine, chip
	Worker int
	Device int32
	// AnchorMono is when the process printed its clock anchor, 0 if it did not.
	AnchorMono int64
}

// Invocation is one run of a callable on one chip.
type Invocation struct {
	Proc       *Process
	Run        *Run
	Inv        uint64
	HID        uint64
	RunID      uint64
	DispatchID uint64
	Start, End int64
	Failed     bool
	Records    int
	Lost       int
	Phases     map[string]int64

	// The device block; Wall is 0 where none was printed.
	Wall        int64
	Effective   int64
	DeviceStart int64
	// Placed is the later of runner_run's start and aicpu_launch, Slack the room
	// behind the block placed there.
	Placed, Slack        int64
	StartCycle, EndCycle uint64
	CounterHz            uint64

	runnerEnd int64
}

// Run is one step of the engine.
type Run struct {
	ID       uint64
	PID      int32 // 0 without records of runs
	Callable string
	Epoch    int
	Failed   bool
	Slot     int
	Lease    uint64
	// Index counts runs over the whole simulation.
	Index       int
	Start, End  int64
	Records     int
	Lost        int
	Invocations []*Invocation
	// Sequences are those the step worked for.
	Sequences []*Sequence
}

// RemoteParent is the context a request arrived with.
type RemoteParent struct {
	SpanID     [8]byte
	Sampled    bool
	TraceState string
}

// Outcomes of a request.
const (
	OutcomeOK     = "ok"
	OutcomeError  = "error"
	OutcomeCancel = "cancel"
	OutcomeReject = "reject"
)

// Request is one HTTP request.
type Request struct {
	Index      int
	ID         string
	TraceID    [16]byte
	SpanID     [8]byte
	Parent     *RemoteParent
	Outcome    string
	HTTPStatus int
	ErrorType  string
	// PD marks a prefill/decode-split request, whose engine work is not traced.
	PD         bool
	PID        int32
	Start, End int64
	Sequences  []*Sequence

	unfinished int
}

// Sequence is one engine sequence of a request.
type Sequence struct {
	ID         int64
	Request    *Request
	SpanID     [8]byte
	PID        int32
	Start, End int64
	Prompt     int
	Cached     int
	// Generated counts tokens that came out; FirstToken is when the first did, 0 if none.
	Generated    int
	FirstToken   int64
	FinishReason string
	ErrorType    string
	Phases       []Phase
	// PrefillRuns and DecodeRuns are the indexes of the runs that worked for it.
	PrefillRuns, DecodeRuns []int

	output   int
	computed int
	end      ending
}

// Phase names, as the engine sends them.
const (
	PhaseWaiting = "prefill_waiting"
	PhasePrefill = "prefill_forward"
	PhaseDecode  = "decode_forward"
)

// Phase is one phase span of a sequence.
type Phase struct {
	Name       string
	SpanID     [8]byte
	Start, End int64
	Error      bool
}
