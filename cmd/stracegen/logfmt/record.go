// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package logfmt writes host runtime log lines byte for byte as each
// generation of the runtime wrote them.
//
// It knows spelling only: what a line looks like. Which records exist, and in
// which order, is the business of package model.
package logfmt // import "github.com/phasecol/phasecol/cmd/stracegen/logfmt"

// Generations of the log format, oldest and newest.
const (
	MinGeneration = 1
	MaxGeneration = 9
)

// Kind tells what a Record is.
type Kind uint8

const (
	// KindSpan is a [STRACE] record.
	KindSpan Kind = iota
	// KindAnchor is a [CLOCK_ANCHOR] record: TS holds mono_ns, AnchorWall wall_ns.
	KindAnchor
	// KindReady is the line a forked chip process prints: PID and Device are used.
	KindReady
	// KindDrops is a [HOSTLOG_DROPS] record: DropsNew and DropsTotal are used.
	KindDrops
	// KindLog is a human log line of the runtime: Level, Func and Text behind the usual prefix.
	KindLog
	// KindRaw is Text verbatim, a line of some other writer.
	KindRaw
)

// Site is the code that printed a span. Before generation 6 it decides the
// function name and the source line in the prefix.
type Site uint8

const (
	// SiteScope is a scope that ended.
	SiteScope Site = iota
	// SiteSpanAt is a span written after the fact, such as every device span.
	SiteSpanAt
	// SiteHostSpan is a span of the node family, of a producer outside the
	// runtime, and of everything from generation 6 on.
	SiteHostSpan
)

// Attr is one k=v of a record: Str where IsStr is set, Num otherwise.
type Attr struct {
	Key   string
	Str   string
	Num   int64
	IsStr bool
}

// Int is an attribute with a decimal value.
func Int(key string, v int64) Attr { return Attr{Key: key, Num: v} }

// Str is an attribute with a text value.
func Str(key, v string) Attr { return Attr{Key: key, Str: v, IsStr: true} }

// Record is one line before it is spelled. The caller owns it and the slices
// in it; a Formatter keeps nothing.
type Record struct {
	Kind Kind
	Site Site

	// Mono and Wall are the instant of printing: CLOCK_MONOTONIC and Unix
	// nanoseconds.
	Mono int64
	Wall int64
	// Thread is what the runtime prints as T0x…, a pthread handle.
	Thread uint64

	PID   int32
	TID   int64
	Inv   uint64
	HID   uint64
	Depth int32
	Name  string
	// TS and Dur are nanoseconds, as written.
	TS, Dur int64
	Attrs   []Attr

	AnchorWall int64
	Device     int32
	DropsNew   uint64
	DropsTotal uint64

	Level, Func, Text string
}
