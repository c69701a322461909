// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver // import "github.com/phasecol/phasecol/receiver/stracelogreceiver"

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/extension/xextension/storage"
)

const (
	// offsetsKey is where fileconsumer keeps its offsets. It writes them when
	// no file is being read, at the end of every poll.
	offsetsKey = "knownFiles"
	// pendingKey is where the snapshot of everything else goes.
	pendingKey = "pending"
)

// checkpoint is fileconsumer's persister. It adds a snapshot of what is
// pending to the very transaction that writes the offsets, so that both are
// always of the same instant: a record is behind the stored offset only when
// its span was accepted or is in the snapshot.
type checkpoint struct {
	client  storage.Client
	durable bool
	reader  *reader
}

func (c *checkpoint) Get(ctx context.Context, key string) ([]byte, error) {
	return c.client.Get(ctx, key)
}

func (c *checkpoint) Set(ctx context.Context, key string, value []byte) error {
	return c.client.Set(ctx, key, value)
}

func (c *checkpoint) Delete(ctx context.Context, key string) error {
	return c.client.Delete(ctx, key)
}

// Batch is called at the end of every poll with the offsets.
func (c *checkpoint) Batch(ctx context.Context, ops ...*storage.Operation) error {
	if !setsOffsets(ops) {
		return c.client.Batch(ctx, ops...)
	}
	snapshot, what, err := c.reader.endPoll(c.durable)
	if err != nil {
		return err
	}
	started := time.Now()
	switch what {
	case storeNothing:
		return nil
	case storeBoth:
		ops = append(ops, storage.SetOperation(pendingKey, snapshot))
	}
	if err := c.client.Batch(ctx, ops...); err != nil {
		c.reader.forgetSaved()
		return fmt.Errorf("storing offsets and what is pending: %w", err)
	}
	if what == storeBoth {
		c.reader.noteSnapshot(ctx, len(snapshot), time.Since(started))
	}
	return nil
}

func setsOffsets(ops []*storage.Operation) bool {
	for _, op := range ops {
		if op.Type == storage.Set && op.Key == offsetsKey {
			return true
		}
	}
	return false
}

// restore loads the snapshot, if there is one.
func (c *checkpoint) restore(ctx context.Context) error {
	snapshot, err := c.client.Get(ctx, pendingKey)
	if err != nil {
		return fmt.Errorf("loading what was pending: %w", err)
	}
	if len(snapshot) == 0 {
		return nil
	}
	if err := c.reader.restore(snapshot); err != nil {
		return restoring(err)
	}
	return nil
}
