// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package fileclock // import "github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/fileclock"

import "github.com/phasecol/phasecol/pkg/strace"

func birth(string) int64 { return 0 }

// Host has no clock that agrees with the runtime's, which runs on Linux only.
func Host() strace.HostClock { return strace.HostClock{} }

// OwnTimeNamespace is always false: time name spaces are Linux's.
func OwnTimeNamespace() bool { return false }
