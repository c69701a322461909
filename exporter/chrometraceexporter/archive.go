// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package chrometraceexporter // import "github.com/phasecol/phasecol/exporter/chrometraceexporter"

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// archiver compresses rotated files and deletes the oldest, in a goroutine of
// its own so that neither holds up writing.
type archiver struct {
	live       string // path of the live file
	compress   bool
	maxBackups int
	// wake holds at most one call: a round does all there is to do.
	wake    chan struct{}
	removed func(files int)
	failed  func(operation string, err error)
}

// run works until ctx ends. A compression cut short leaves the file as it was,
// for the next start.
func (a *archiver) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
			a.round(ctx)
		}
	}
}

func (a *archiver) call() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *archiver) round(ctx context.Context) {
	backups, err := a.backups()
	if err != nil {
		a.failed("remove", err)
		return
	}
	if a.maxBackups > 0 && len(backups) > a.maxBackups {
		excess := len(backups) - a.maxBackups
		for _, name := range backups[:excess] {
			if err := os.Remove(name); err != nil {
				a.failed("remove", fmt.Errorf("removing rotated file: %w", err))
				continue
			}
			a.removed(1)
		}
		backups = backups[excess:]
	}
	if !a.compress {
		return
	}
	for _, name := range backups {
		if strings.HasSuffix(name, gzipExt) {
			continue
		}
		if err := compressFile(ctx, name); err != nil {
			if ctx.Err() != nil {
				return
			}
			a.failed("compress", err)
		}
	}
}

// backups lists the rotated files, oldest first, and removes what an
// interrupted compression left.
func (a *archiver) backups() ([]string, error) {
	base := strings.TrimSuffix(a.live, traceExt)
	entries, err := os.ReadDir(filepath.Dir(a.live))
	if err != nil {
		return nil, fmt.Errorf("listing rotated files: %w", err)
	}
	var names []string
	for _, entry := range entries {
		name, ok := strings.CutPrefix(entry.Name(), filepath.Base(base)+"-")
		if !ok || entry.IsDir() {
			continue
		}
		stamp, ext, _ := strings.Cut(name, traceExt)
		if _, err := time.Parse(backupLayout, stamp); err != nil {
			continue
		}
		path := filepath.Join(filepath.Dir(a.live), entry.Name())
		switch ext {
		case "", gzipExt:
			names = append(names, path)
		case gzipExt + ".tmp":
			if err := os.Remove(path); err != nil {
				return nil, fmt.Errorf("removing unfinished archive: %w", err)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// compressFile replaces path by path.gz; at any moment one of both is whole.
func compressFile(ctx context.Context, path string) (err error) {
	in, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("compressing: %w", err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	temporary := path + gzipExt + ".tmp"
	out, err := os.Create(temporary)
	if err != nil {
		return fmt.Errorf("compressing: %w", err)
	}
	zip := gzip.NewWriter(out)
	_, err = io.Copy(zip, &cancelReader{ctx: ctx, from: in})
	err = errors.Join(err, zip.Close(), out.Close())
	if err == nil {
		err = os.Rename(temporary, path+gzipExt)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("compressing %s: %w", path, err), os.Remove(temporary))
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing compressed original: %w", err)
	}
	return nil
}

// cancelReader ends a copy when its context does.
type cancelReader struct {
	ctx  context.Context
	from io.Reader
}

func (r *cancelReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(b) //nolint:wrapcheck // io.EOF must stay itself.
}
