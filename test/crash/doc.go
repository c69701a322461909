// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package crash kills the built Collector while logs are written and rotated,
// and compares what it exported with what was written.
package crash // import "github.com/phasecol/phasecol/test/crash"
