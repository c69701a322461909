// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPrepare(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	dir := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.Mkdir(dir, 0o755))
	old := filepath.Join(dir, "old")
	require.NoError(t, os.WriteFile(old, nil, 0o600))
	for range 2 {
		require.NoError(t, prepare(dir, "10001"))
		for path, mode := range map[string]os.FileMode{dir: 0o770 | os.ModeDir, old: 0o600} {
			info, err := os.Stat(path)
			require.NoError(t, err)
			assert.Equal(t, mode, info.Mode())
			assert.Equal(t, uint32(10001), info.Sys().(*syscall.Stat_t).Uid)
			assert.Equal(t, uint32(0), info.Sys().(*syscall.Stat_t).Gid)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	for _, owner := range []string{"0", "-1", "phasecol", ""} {
		assert.Error(t, prepare(t.TempDir(), owner))
	}
}
