// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package strace

// underRace cuts the long tests down: the package starts no goroutine, and the
// detector makes them ten times as long.
const underRace = false
