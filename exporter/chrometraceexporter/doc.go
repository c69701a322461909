// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate make mdatagen

// Package chrometraceexporter writes traces as Chrome Trace Event JSON: a
// rotating set of files that Perfetto and chrome://tracing open, the newest
// one even while it is still being written.
package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"
