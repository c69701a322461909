// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package semconv holds the attribute and span names that the receiver writes
// and the processor, exporter and metrics read: docs/conventions.md as Go
// constants. Names that OpenTelemetry already defines are not repeated here.
package semconv

// Attributes of a span made from one marker record.
const (
	// Inv is the record's inv: an int, or its decimal string above 2^63-1.
	Inv = "strace.inv"
	// HID is the callable's content hash, lower-case hex as written.
	HID = "strace.hid"
	// Depth is the record's depth, an int.
	Depth = "strace.depth"
	// Stage is the record's name in one vocabulary for all generations.
	Stage = "strace.stage"
	// Family is one of the Family* values.
	Family = "strace.family"
	// Level is the level word of the node family: node, network1, ...
	Level = "strace.level"
	// Producer is the producer of an ext.<producer>.<span> record.
	Producer = "strace.producer"
	// Clock is host or device: the clock of the record's ts.
	Clock = "strace.clock"
	// ClockSource says where the wall time came from: a ClockSource* value.
	ClockSource = "strace.clock.source"
	// ClockError bounds the wall placement, seconds, double.
	ClockError = "strace.clock.error"
	// DeviceTS is a device span's offset as written, nanoseconds.
	DeviceTS = "strace.device.ts_ns"
	// DeviceSlack is the room the device block's placement had, seconds.
	DeviceSlack = "strace.device.slack"
	// DeviceFits is false where device numbers did not fit their room.
	DeviceFits = "strace.device.fits"
	// AttrPrefix precedes every other k=v of the record.
	AttrPrefix = "strace.attr."
	// Truncated is true when the emitter cut the name or the attributes.
	Truncated = "strace.truncated"
	// Incomplete is true on the topmost spans of an invocation that left
	// without its root or may have lost records.
	Incomplete = "strace.incomplete"
	// Parent is ParentGuessed where no tree rule gave one answer.
	Parent = "strace.parent"
	// Stitch says how a chip invocation found its run: a Stitch* value.
	Stitch = "strace.stitch"
	// Synthetic is true on spans the receiver made, such as <level>.run.
	Synthetic = "strace.synthetic"
	// Callable names the callable of an invocation: decode, prefill, ...
	Callable = "strace.callable"
)

// Values of Family.
const (
	FamilyChip     = "chip"
	FamilyCore     = "core"
	FamilyNode     = "node"
	FamilyExternal = "external"
	FamilyUnknown  = "unknown"
)

// Values of Clock.
const (
	ClockHost   = "host"
	ClockDevice = "device"
)

// Values of ClockSource.
const (
	ClockSourceAnchor = "anchor"
	ClockSourceRecord = "record"
	ClockSourceHost   = "host"
	ClockSourceMtime  = "mtime"
	ClockSourceNone   = "none"
)

// Values of Stitch.
const (
	StitchIdentity = "identity"
	StitchTime     = "time"
	StitchRun      = "run"
	StitchNone     = "none"
)

// ParentGuessed is the one value of Parent.
const ParentGuessed = "guessed"

// Stages the processor and the metrics name.
const (
	StageRun              = "run"
	StageBind             = "run.bind"
	StagePublishImage     = "run.publish_image"
	StageStageInputs      = "run.stage_inputs"
	StagePrepareExecution = "run.prepare_execution"
	StageRunnerRun        = "run.runner_run"
	StageClaimRelease     = "run.claim_release"
	StageValidate         = "run.validate"
	StageDeviceWall       = "run.runner_run.device_wall"
	StagePrewarm          = "prewarm.build"
	StageLevelRun         = "level.run"
	StageLevelGraphBuild  = "level.graph_build"
	StageLevelSubmit      = "level.submit"
	StageLevelDispatch    = "level.dispatch"
	StageLevelFrameSubmit = "level.frame_submit"
	StageLevelActivate    = "level.activate"
	StageLevelComplete    = "level.complete"
	StageLevelRetirement  = "level.post_fence_retirement"
	StageSchedulerLoop    = "level.scheduler_loop"
)

// Attributes the phase processor writes on an invocation's root. Seconds,
// double, unless said otherwise.
const (
	PhaseHostWall         = "phase.host_wall"
	PhaseBind             = "phase.bind"
	PhaseBindPrefix       = "phase.bind."
	PhaseStageInputs      = "phase.stage_inputs"
	PhasePrepareExecution = "phase.prepare_execution"
	PhaseRunnerRun        = "phase.runner_run"
	PhaseClaimRelease     = "phase.claim_release"
	PhaseValidate         = "phase.validate"
	PhaseDeviceWall       = "phase.device_wall"
	PhasePreamble         = "phase.preamble"
	PhaseSoLoad           = "phase.so_load"
	PhaseGraphBuild       = "phase.graph_build"
	PhaseConfigValidate   = "phase.config_validate"
	PhaseArenaWire        = "phase.arena_wire"
	PhaseSmReset          = "phase.sm_reset"
	PhasePostOrch         = "phase.post_orch"
	PhaseOrch             = "phase.orch"
	PhaseSched            = "phase.sched"
	PhaseEffective        = "phase.effective"
	PhasePrep             = "phase.prep"
	PhaseHostOverhead     = "phase.host_overhead"
	PhaseLaunchOverhead   = "phase.launch_overhead"
	PhaseUnattributed     = "phase.unattributed"
	PhaseDeviceGap        = "phase.device_gap"
	// PhasePrepareOverlap is a share, 0..1.
	PhasePrepareOverlap = "phase.prepare_overlap"
)

// Attributes on <level>.run.
const (
	PhaseStep = "phase.step"
	// PhaseRanks is a count.
	PhaseRanks = "phase.ranks"
	// PhaseCriticalRank names the pid or device whose invocation ends last.
	PhaseCriticalRank = "phase.critical_rank"
	PhaseRankSkew     = "phase.rank_skew"
)

// Attributes on the request's spans.
const (
	PhaseQueue   = "phase.queue"
	PhasePrefill = "phase.prefill"
	PhaseDecode  = "phase.decode"
	PhaseTTFT    = "phase.ttft"
	// PhaseTTFTEstimated is true when no engine value was sent.
	PhaseTTFTEstimated = "phase.ttft.estimated"
	PhaseTPOT          = "phase.tpot"
	PhaseE2E           = "phase.e2e"
	PhaseHTTPOverhead  = "phase.http_overhead"
	// PhaseHostRuns and PhaseSteps are counts.
	PhaseHostRuns   = "phase.host_runs"
	PhaseSteps      = "phase.steps"
	PhaseHostBusy   = "phase.host_busy"
	PhaseDeviceBusy = "phase.device_busy"
	PhaseEngineGap  = "phase.engine_gap"
	// PhaseJoin is a Join* value.
	PhaseJoin = "phase.join"
	// PhaseJoinError is the sum of both sides' clock errors.
	PhaseJoinError = "phase.join.error"
	// PhaseContract is ok or the first rule broken.
	PhaseContract = "phase.contract"
	// PhasePartial is true when a trace arrived in pieces beyond the wait.
	PhasePartial = "phase.partial"
	// PhaseDuplicate is true on every arrival of a request span but the first.
	PhaseDuplicate = "phase.duplicate"
	// PhaseSeen is true on a waiting phase's span once a phase processor has
	// judged its request: it gets no other attribute to tell by.
	PhaseSeen = "phase.seen"
	// PhaseCopy marks spans copied into the request's trace.
	PhaseCopy            = "phase.copy"
	PhaseCopyOfTraceID   = "phase.copy_of.trace_id"
	PhaseCopyOfSpanID    = "phase.copy_of.span_id"
	PhaseLink            = "phase.link"
	PhaseLinkHostRun     = "host_run"
	JoinTraceparent      = "traceparent"
	JoinRequestID        = "request_id"
	JoinOverlap          = "overlap"
	JoinNone             = "none"
	ContractOK           = "ok"
	ContractOrphanPhase  = "orphan_phase"
	ContractMissingPhase = "missing_phase"
	ContractOrder        = "order"
	ContractGap          = "gap"
	ContractOverlap      = "overlap"
	ContractStatus       = "status"
	ContractLatency      = "latency"
	ContractPD           = "unsupported_pd"
)
