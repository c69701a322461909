// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package jaeger pins the Jaeger that the interoperability tests run. It is a
// module of its own, outside the workspace, so that Jaeger's requirements move
// no version of the product. Build it with ../setup.sh.
package jaeger // import "github.com/phasecol/phasecol/test/backend/jaeger"
