// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

//go:generate make mdatagen

// Package phaseprocessor derives phase latencies from host runtime spans and
// from the request spans of serving engines, checks the request trace contract,
// and joins the host runs with the requests they served.
package phaseprocessor
