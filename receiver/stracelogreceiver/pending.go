// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver // import "github.com/phasecol/phasecol/receiver/stracelogreceiver"

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/phasecol/phasecol/internal/stracepdata/feed"
	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"
)

// pendingVersion changes whenever the layout of the snapshot does.
const pendingVersion = 1

// verdict says what is to be stored at the end of a poll.
type verdict uint8

const (
	// storeNothing: offsets would run ahead of what was filed.
	storeNothing verdict = iota
	// storeOffsets: what is pending has not changed.
	storeOffsets
	storeBoth
)

// endPoll is called when every file has been read to its end, and once more at
// shutdown, when reading was broken off. With durable set it returns what to
// store.
func (r *reader) endPoll(durable bool) ([]byte, verdict, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if r.host != nil {
		r.feed.Assembler.SetHostClock(r.host())
	}
	r.endOrder()
	switch {
	case !r.stopping:
		r.feed.Assembler.EndPoll(now.UnixNano())
	case !durable:
		r.feed.Assembler.Flush(now.UnixNano())
	}
	r.flush()
	r.tel.publish(r.feed.Assembler.Stats())
	if r.stopping && r.files.unpacking() {
		// fileconsumer takes a compressed file that it broke off for read.
		return nil, storeNothing, nil
	}
	if !r.stopping {
		r.files.endPoll(now)
		r.backlog.endPoll(now)
		r.backlog.report(now, r.logger)
	}
	if !durable {
		return nil, storeNothing, nil
	}
	is := state{taken: true, blocks: r.blocks, stats: r.feed.Assembler.Stats(), queue: r.outbox.Len()}
	if is == r.saved && is.queue == 0 {
		return nil, storeOffsets, nil
	}
	snapshot, err := r.snapshot()
	if err != nil {
		return nil, storeNothing, err
	}
	r.saved = is
	return snapshot, storeBoth, nil
}

// forgetSaved makes the next end of a poll store everything.
func (r *reader) forgetSaved() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved = state{}
}

// snapshot is all that is pending: batches not yet accepted, pieces of
// container lines, the paths of processes, and what is being assembled.
func (r *reader) snapshot() ([]byte, error) {
	batches, err := r.outbox.Marshal()
	if err != nil {
		return nil, err
	}
	// The next one is about as large as the last.
	b := append(make([]byte, 0, r.snapshotSize+r.snapshotSize/8), pendingVersion)
	b = binary.AppendUvarint(b, uint64(len(batches)))
	for _, batch := range batches {
		b = feed.AppendBytes(b, batch)
	}
	b = r.files.appendPieces(b)
	b = r.files.appendOwners(b)
	b = r.files.appendHeads(b)
	b = r.feed.AppendSnapshot(b)
	r.snapshotSize = len(b)
	return b, nil
}

var errVersion = errors.New("the stored snapshot was written by another version of this receiver")

// restore fills a new reader from a snapshot.
func (r *reader) restore(b []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(b) == 0 || b[0] != pendingVersion {
		return errVersion
	}
	count, b, err := feed.CutUvarint(b[1:])
	if err != nil {
		return err
	}
	var batches [][]byte
	for range count {
		var batch []byte
		if batch, b, err = feed.CutBytes(b); err != nil {
			return err
		}
		batches = append(batches, batch)
	}
	err = r.outbox.Unmarshal(batches)
	if err != nil {
		return err
	}
	if b, err = r.files.cutPieces(b); err != nil {
		return err
	}
	if b, err = r.files.cutOwners(b); err != nil {
		return err
	}
	if b, err = r.files.cutHeads(b); err != nil {
		return err
	}
	return r.feed.Restore(b, r.now().UnixNano())
}

// appendPieces appends the pieces of container lines that wait for the rest.
func (fs *files) appendPieces(b []byte) []byte {
	waiting := map[string][container.NumStreams][]byte{}
	maps.Copy(waiting, fs.pieces)
	for path, f := range fs.byPath {
		if f.join.Pending(container.Stdout) || f.join.Pending(container.Stderr) {
			waiting[path] = f.join.Pieces()
		}
	}
	b = binary.AppendUvarint(b, uint64(len(waiting)))
	for _, path := range slices.Sorted(maps.Keys(waiting)) {
		b = feed.AppendBytes(b, []byte(path))
		for _, piece := range waiting[path] {
			b = feed.AppendBytes(b, piece)
		}
	}
	return b
}

func (fs *files) cutPieces(b []byte) ([]byte, error) {
	count, b, err := feed.CutUvarint(b)
	if err != nil {
		return nil, err
	}
	for range count {
		var path []byte
		if path, b, err = feed.CutBytes(b); err != nil {
			return nil, err
		}
		var pieces [container.NumStreams][]byte
		for i := range pieces {
			if pieces[i], b, err = feed.CutBytes(b); err != nil {
				return nil, err
			}
		}
		fs.pieces[string(path)] = pieces
	}
	return b, nil
}

// appendOwners appends which file each process writes.
func (fs *files) appendOwners(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(fs.owners)))
	for _, key := range slices.SortedFunc(maps.Keys(fs.owners), func(x, y owner) int {
		return cmp.Or(cmp.Compare(x.scope, y.scope), cmp.Compare(x.pid, y.pid))
	}) {
		b = feed.AppendBytes(b, []byte(key.scope))
		b = binary.AppendUvarint(b, uint64(key.pid))
		b = feed.AppendBytes(b, []byte(fs.owners[key]))
	}
	return b
}

func (fs *files) cutOwners(b []byte) ([]byte, error) {
	count, b, err := feed.CutUvarint(b)
	if err != nil {
		return nil, err
	}
	for range count {
		var scope, path []byte
		var pid uint64
		if scope, b, err = feed.CutBytes(b); err != nil {
			return nil, err
		}
		if pid, b, err = feed.CutUvarint(b); err != nil {
			return nil, err
		}
		if path, b, err = feed.CutBytes(b); err != nil {
			return nil, err
		}
		fs.owners[owner{string(scope), int32(pid)}] = string(path)
	}
	return b, nil
}

// appendHeads appends how far files were read, by their beginnings.
func (fs *files) appendHeads(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(fs.heads)))
	for _, head := range slices.Sorted(maps.Keys(fs.heads)) {
		b = binary.AppendUvarint(b, head)
		b = binary.AppendUvarint(b, uint64(fs.heads[head]))
	}
	return b
}

func (fs *files) cutHeads(b []byte) ([]byte, error) {
	count, b, err := feed.CutUvarint(b)
	if err != nil {
		return nil, err
	}
	for range count {
		var head, offset uint64
		if head, b, err = feed.CutUvarint(b); err != nil {
			return nil, err
		}
		if offset, b, err = feed.CutUvarint(b); err != nil {
			return nil, err
		}
		fs.heads[head] = int64(offset)
	}
	return b, nil
}

func (r *reader) noteSnapshot(ctx context.Context, size int, took time.Duration) {
	r.tel.snapshot(ctx, size, took)
}

// restoring wraps an error so that it says the way out.
func restoring(err error) error {
	return fmt.Errorf("restoring what was pending (remove the receiver's storage to start without it): %w", err)
}
