// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogreceiver // import "github.com/phasecol/phasecol/receiver/stracelogreceiver"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/stanza/fileconsumer"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/receiver"
	"go.uber.org/zap"

	"github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/split"
)

// shutdownFlush bounds the last attempt to deliver what is ready.
const shutdownFlush = 3 * time.Second

// stracelogReceiver owns the life of a reader and its fileconsumer.
type stracelogReceiver struct {
	set     receiver.Settings
	cfg     *Config
	next    consumer.Traces
	reader  *reader
	manager *fileconsumer.Manager
	storage storage.Client
	cancel  context.CancelFunc
}

func newStracelogReceiver(set receiver.Settings, cfg *Config, next consumer.Traces) *stracelogReceiver {
	return &stracelogReceiver{set: set, cfg: cfg, next: next}
}

// Start restores what was pending and begins to read.
func (r *stracelogReceiver) Start(ctx context.Context, host component.Host) error {
	err := r.start(ctx, host)
	if err != nil {
		// The Collector shuts down only what has started.
		err = errors.Join(err, r.release(ctx))
	}
	return err
}

func (r *stracelogReceiver) start(ctx context.Context, host component.Host) (err error) {
	if r.storage, err = r.storageClient(ctx, host); err != nil {
		return err
	}
	// Delivery outlives Start, and ends in Shutdown.
	running, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	if r.reader, err = newReader(running, r.set, r.cfg, r.next); err != nil {
		return err
	}
	checkpoint := &checkpoint{client: r.storage, durable: r.cfg.Storage != nil, reader: r.reader}
	err = checkpoint.restore(ctx)
	if err != nil {
		return err
	}
	manager, err := r.fileconsumerConfig().Build(r.set.TelemetrySettings, r.reader.consume,
		fileconsumer.WithSplitFunc(split.Func(r.cfg.format())))
	if err != nil {
		return fmt.Errorf("setting up the file reader: %w", err)
	}
	if r.cfg.Storage == nil {
		r.set.Logger.Info("no storage is set: a restart starts at start_at again, and what is pending at a crash is lost; set storage to a file_storage extension to survive both")
	}
	r.warnMissing()
	if err := manager.Start(checkpoint); err != nil {
		return fmt.Errorf("starting the file reader: %w", err)
	}
	r.manager = manager
	return nil
}

func (r *stracelogReceiver) fileconsumerConfig() *fileconsumer.Config {
	fc := fileconsumer.NewConfig()
	fc.Include, fc.Exclude = r.cfg.Include, r.cfg.Exclude
	fc.StartAt = r.cfg.StartAt
	fc.PollInterval = r.cfg.PollInterval
	fc.MaxConcurrentFiles = r.cfg.MaxConcurrentFiles
	if r.cfg.Compression != "none" {
		fc.Compression = r.cfg.Compression
	}
	// The split function passes on whole lines and needs none of the rest: no
	// decoding, no trimming, and never a line that is still being written.
	fc.Encoding = "nop"
	fc.FlushPeriod = 0
	fc.InitialBufferSize = 2 * split.MaxLine
	// After copytruncate the file may already have grown: reading it whole can
	// at worst repeat spans, with the same identifiers.
	fc.OnTruncate = fileconsumer.OnTruncateReadWholeFile
	fc.IncludeFileName, fc.IncludeFilePath = false, true
	return fc
}

// warnMissing names the patterns that match nothing yet and the directories
// that cannot be read: the file reader keeps watching and says neither.
func (r *stracelogReceiver) warnMissing() {
	for _, pattern := range r.cfg.Include {
		base, _ := doublestar.SplitPattern(filepath.ToSlash(pattern))
		if _, err := os.ReadDir(base); err != nil {
			r.set.Logger.Warn("cannot read the directory of an include pattern; watching for it",
				zap.String("pattern", pattern), zap.String("directory", base), zap.Error(err))
			continue
		}
		if matches, err := doublestar.FilepathGlob(pattern); err == nil && len(matches) == 0 {
			r.set.Logger.Warn("no file matches an include pattern yet; watching for it", zap.String("pattern", pattern))
		}
	}
}

// Shutdown stops reading and delivers what is complete. With storage the rest
// is kept for the next start; without, it is sent on as it is.
func (r *stracelogReceiver) Shutdown(ctx context.Context) error {
	if r.manager == nil {
		return nil
	}
	r.cancel()
	final, cancel := context.WithTimeout(ctx, shutdownFlush)
	defer cancel()
	r.reader.stop(final)
	stopErr := r.manager.Stop()
	r.manager = nil
	return errors.Join(stopErr, r.release(ctx))
}

// release gives back what start took.
func (r *stracelogReceiver) release(ctx context.Context) (err error) {
	if r.cancel != nil {
		r.cancel()
	}
	if r.reader != nil {
		r.reader.close(ctx)
	}
	if r.storage != nil {
		err = r.storage.Close(ctx)
	}
	r.cancel, r.reader, r.storage = nil, nil, nil
	return err
}

// storageClient opens the configured storage, or one that keeps nothing.
func (r *stracelogReceiver) storageClient(ctx context.Context, host component.Host) (storage.Client, error) {
	if r.cfg.Storage == nil {
		return storage.NewNopClient(), nil
	}
	ext, ok := host.GetExtensions()[*r.cfg.Storage]
	if !ok {
		return nil, fmt.Errorf("storage: extension %q is not among service::extensions", r.cfg.Storage)
	}
	storageExt, ok := ext.(storage.Extension)
	if !ok {
		return nil, fmt.Errorf("storage: extension %q is no storage extension", r.cfg.Storage)
	}
	client, err := storageExt.GetClient(ctx, component.KindReceiver, r.set.ID, "")
	if err != nil {
		return nil, fmt.Errorf("opening storage %q: %w", r.cfg.Storage, err)
	}
	return client, nil
}
