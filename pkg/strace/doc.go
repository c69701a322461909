// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package strace reads the [STRACE] marker language (grammar v1, all
// generations of the host runtime) and turns it into whole traces.
//
// A Scanner finds records, clock anchors, drop reports and worker
// announcements in log lines. An Assembler files them, closes each chip
// invocation at its root and each L3 run at its last record, builds the tree,
// places it on the wall clock and hands out traces whose identifiers depend
// only on the bytes read. Device numbers keep their exact durations.
//
// The package does no I/O, starts no goroutine and reads no clock: the caller
// passes the time. Nothing in it is safe for concurrent use unless said so.
package strace // import "github.com/phasecol/phasecol/pkg/strace"
