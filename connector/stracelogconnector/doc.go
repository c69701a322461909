// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate make mdatagen

// Package stracelogconnector turns log records that hold the [STRACE] marker
// lines of the NPU host runtime into spans.
package stracelogconnector // import "github.com/phasecol/phasecol/connector/stracelogconnector"
