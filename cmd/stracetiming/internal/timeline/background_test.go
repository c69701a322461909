// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBackgroundWritesAllInOrder(t *testing.T) {
	var got bytes.Buffer
	b := newBackground(&got)
	var want []byte
	for i := range 1000 {
		p := bytes.Repeat([]byte{byte(i)}, i%7)
		want = append(want, p...)
		n, err := b.Write(p)
		require.NoError(t, err)
		assert.Len(t, p, n)
		clear(p) // the caller's buffer is the caller's again
	}
	require.NoError(t, b.Close())
	assert.Equal(t, want, got.Bytes())
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestBackgroundTellsOfErrors(t *testing.T) {
	full := errors.New("no space left")
	b := newBackground(broken{full})
	var err error
	for err == nil { // ends: the first write fails, and a later call says so
		_, err = b.Write([]byte("x"))
	}
	require.ErrorIs(t, err, full)
	require.ErrorIs(t, b.Close(), full)
}
