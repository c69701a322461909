// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package fileclock

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
)

const (
	host   = "[STRACE] v=1 pid=7 tid=7 inv=1 hid=ab depth=0 name=chip.run ts=1000 dur=500 \n"
	device = "[STRACE] v=1 pid=7 tid=7 inv=1 hid=ab depth=2 name=chip.run.runner_run.device_wall ts=0 dur=900000 clk=dev\n"
)

// mtime is an instant that file systems keep exactly.
var mtime = time.Unix(1_700_000_000, 123_456_789)

func write(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	require.NoError(t, os.Chtimes(path, mtime, mtime))
	return path
}

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestOf(t *testing.T) {
	noise := strings.Repeat("a line of the server's own, of which it prints many\n", 10_000)
	for _, tt := range []struct {
		name    string
		text    []byte
		format  container.Format
		lastEnd int64
		packed  bool
	}{
		{"raw", []byte(noise + host + device + "goodbye\n"), container.Auto, 1500, false},
		{"the latest end, not the last line", []byte(host + strings.Replace(host, "ts=1000 dur=500", "ts=1100 dur=5", 1)), container.Raw, 1500, false},
		{"cri", []byte("2026-01-01T00:00:00Z stderr F " + host), container.CRI, 1500, false},
		{"not of the shape demanded", []byte(host), container.CRI, 0, false},
		{"no record", []byte(noise), container.Auto, 0, false},
		{"a device record has no host time", []byte(device), container.Auto, 0, false},
		{"out of sight", []byte(host + noise), container.Auto, 0, false},
		{"empty", nil, container.Auto, 0, false},
		{"gzip", packed(t, noise+host), container.Auto, 1500, true},
		{"gzip that is cut", packed(t, noise+host)[:40], container.Auto, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, "host.log", tt.text)
			look, err := Of(path, tt.format, true)
			require.NoError(t, err)
			assert.Equal(t, tt.lastEnd, look.Clock.LastEnd)
			if tt.lastEnd > 0 {
				assert.Equal(t, mtime.UnixNano(), look.Clock.Mtime)
			} else {
				assert.Zero(t, look.Clock.Mtime)
			}
			assert.Equal(t, mtime.UnixNano(), look.Clock.Written)
			assert.Equal(t, tt.packed, look.Packed)

			look, err = Of(path, tt.format, false)
			require.NoError(t, err)
			assert.Zero(t, look.Clock.LastEnd, "it was not asked for")
		})
	}
}

// TestHead: a file is known by its beginning, compressed or not, once it has
// enough of it.
func TestHead(t *testing.T) {
	text := strings.Repeat("0123456789", HeadSize/10)
	look := func(text []byte) uint64 {
		l, err := Of(write(t, "x", text), container.Auto, false)
		require.NoError(t, err)
		return l.Head
	}
	whole := look([]byte(text + "more"))
	assert.NotZero(t, whole)
	assert.Equal(t, whole, look([]byte(text+"other")))
	assert.Equal(t, whole, look(packed(t, text+"other")))
	assert.NotEqual(t, whole, look([]byte("x"+text)))
	assert.Zero(t, look([]byte(text[1:])))
	assert.Zero(t, look(packed(t, text[1:])))
}

func TestOfErrors(t *testing.T) {
	_, err := Of(filepath.Join(t.TempDir(), "none"), container.Auto, true)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Of(write(t, "x", []byte("\x1f\x8bno gzip at all")), container.Auto, true)
	require.ErrorIs(t, err, gzip.ErrHeader)
}

// TestHostClock: the two clocks are read together and go on.
func TestHostClock(t *testing.T) {
	first := Host()
	if !first.Valid {
		t.Skip("the runtime's clock is Linux's")
	}
	before := time.Now().UnixNano()
	second := Host()
	after := time.Now().UnixNano()
	assert.GreaterOrEqual(t, second.Mono, first.Mono)
	assert.GreaterOrEqual(t, second.Mono+second.Offset, before-int64(time.Millisecond))
	assert.LessOrEqual(t, second.Mono+second.Offset, after+int64(time.Millisecond))
}

// TestBirth is between the moments around the file's making, where the file
// system keeps it.
func TestBirth(t *testing.T) {
	before := time.Now().Add(-time.Second).UnixNano()
	look, err := Of(write(t, "x", nil), container.Auto, false)
	require.NoError(t, err)
	if look.Clock.Birth == 0 {
		t.Skip("this file system keeps no birth times")
	}
	assert.GreaterOrEqual(t, look.Clock.Birth, before)
	assert.LessOrEqual(t, look.Clock.Birth, time.Now().Add(time.Second).UnixNano())
}
