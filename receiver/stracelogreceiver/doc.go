// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate make mdatagen

// Package stracelogreceiver reads the [STRACE] marker lines that the NPU host
// runtime writes to its log and turns them into spans.
package stracelogreceiver // import "github.com/phasecol/phasecol/receiver/stracelogreceiver"
