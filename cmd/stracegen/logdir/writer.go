// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package logdir writes records into log files laid out as the runtime, a
// kubelet or Docker lays them out.
package logdir // import "github.com/phasecol/phasecol/cmd/stracegen/logdir"

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/phasecol/phasecol/cmd/stracegen/logfmt"
	"github.com/phasecol/phasecol/cmd/stracegen/truth"
)

// Options say where and how lines are written.
type Options struct {
	// Dir is the folder; Stream is used instead when it is empty.
	Dir    string
	Stream io.Writer
	// Single puts all processes into one log, "host.log". Container formats
	// always do: a container has one log.
	Single bool
	// Format is raw, cri or docker; Pod names the container.
	Format string
	Pod    truth.Pod
	// PartialBytes is where a container runtime cuts a line; 0 is its usual 16 KiB.
	PartialBytes int
	// RotateBytes renames a log to log.1, log.2, … once it is so large; 0 never.
	RotateBytes int64
	// ByLine writes every line at once, one write each; otherwise in blocks.
	ByLine bool
	// Bare leaves the prefixes away and names files host-strace.<pid>.log.
	Bare bool
	// Noise is how many foreign lines go with each record; 0.1 is one in ten.
	Noise float64
	// Interleave tears lines of different processes as a shared pipe did in
	// generations 1 to 3; it needs one shared raw log.
	Interleave bool
	Seed       uint64
}

// Writer writes records. It is not safe for concurrent use.
type Writer struct {
	opts   Options
	f      *logfmt.Formatter
	inter  *logfmt.Interleaver
	noise  *logfmt.Noise
	rnd    *rand.Rand
	owed   float64
	files  map[int32]*file
	shared *file
	line   []byte
	text   []byte
	lines  int64
	noises int64
	stream struct{ bytes, records int64 }
}

// New opens what Options describe.
func New(f *logfmt.Formatter, opts Options) (*Writer, error) {
	if opts.Format == "" {
		opts.Format = logfmt.FormatRaw
	}
	if err := logfmt.CheckFormat(opts.Format); err != nil {
		return nil, err
	}
	if opts.PartialBytes <= 0 {
		opts.PartialBytes = logfmt.DefaultPartialBytes
	}
	if opts.Dir == "" && opts.Stream == nil {
		return nil, errors.New("logdir: neither a folder nor a stream to write to")
	}
	single := opts.Single || opts.Format != logfmt.FormatRaw || opts.Dir == ""
	if opts.Interleave && (!single || opts.Format != logfmt.FormatRaw) {
		return nil, errors.New("interleave: lines only tear in one shared raw log, use a single file and format raw")
	}
	w := &Writer{
		opts: opts, f: f, noise: logfmt.NewNoise(opts.Seed), files: map[int32]*file{},
		rnd: rand.New(rand.NewPCG(opts.Seed, 0x6c6f67646972)),
	}
	if opts.Interleave {
		w.inter = logfmt.NewInterleaver(f, opts.Seed)
	}
	if single && opts.Dir != "" {
		var err error
		if w.shared, err = openFile(opts.sharedPath(), opts.RotateBytes, opts.ByLine); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// sharedPath is where a single log lies.
func (o *Options) sharedPath() string {
	switch o.Format {
	case logfmt.FormatCRI:
		return filepath.Join(o.Dir, "pods", o.Pod.Namespace+"_"+o.Pod.Name+"_"+o.Pod.UID, o.Pod.Container, "0.log")
	case logfmt.FormatDocker:
		id := strings.Repeat(strings.ReplaceAll(o.Pod.UID, "-", ""), 2)
		return filepath.Join(o.Dir, "containers", id, id+"-json.log")
	default:
		return filepath.Join(o.Dir, "host.log")
	}
}

// Write writes a record, and noise as it falls due. It keeps nothing of r.
func (w *Writer) Write(r *logfmt.Record) error {
	records := int64(0)
	if r.Kind == logfmt.KindSpan {
		records = 1
	}
	if w.inter != nil {
		w.line = w.inter.Append(w.line[:0], r)
	} else {
		w.line = w.f.Append(w.line[:0], r)
	}
	if err := w.put(r, w.line, records); err != nil {
		return err
	}
	for w.owed += w.opts.Noise; w.owed >= 1; w.owed-- {
		w.noises++
		w.line = w.noise.Append(w.line[:0])
		if err := w.put(r, w.line, 0); err != nil {
			return err
		}
	}
	return nil
}

// put writes a line on behalf of the process that wrote r.
func (w *Writer) put(r *logfmt.Record, line []byte, records int64) error {
	whole := len(line) > 0 && line[len(line)-1] == '\n'
	text := line
	if w.opts.Format != logfmt.FormatRaw {
		// The runtime reads the pipe a little after the process wrote to it.
		at := r.Wall + 10_000 + w.rnd.Int64N(290_000)
		if w.opts.Format == logfmt.FormatCRI {
			w.text = logfmt.AppendCRI(w.text[:0], line[:len(line)-1], at, w.opts.PartialBytes)
		} else {
			w.text = logfmt.AppendDocker(w.text[:0], line[:len(line)-1], at, w.opts.PartialBytes)
		}
		text = w.text
	}
	lines := int64(bytes.Count(text, []byte{'\n'}))
	w.lines += lines
	if w.opts.Dir == "" {
		w.stream.bytes += int64(len(text))
		w.stream.records += records
		if _, err := w.opts.Stream.Write(text); err != nil {
			return fmt.Errorf("writing the log: %w", err)
		}
		return nil
	}
	f, err := w.file(r.PID)
	if err != nil {
		return err
	}
	return f.write(text, lines, records, whole)
}

func (w *Writer) file(pid int32) (*file, error) {
	if w.shared != nil {
		return w.shared, nil
	}
	if f, ok := w.files[pid]; ok {
		return f, nil
	}
	name := "host."
	if w.opts.Bare {
		name = "host-strace."
	}
	f, err := openFile(filepath.Join(w.opts.Dir, name+strconv.Itoa(int(pid))+".log"), w.opts.RotateBytes, w.opts.ByLine)
	if err != nil {
		return nil, err
	}
	w.files[pid] = f
	return f, nil
}

// Close writes what is left and closes all files; the Writer's account is
// complete only then.
func (w *Writer) Close() error {
	var errs []error
	if w.inter != nil {
		w.line = w.inter.Flush(w.line[:0])
		errs = append(errs, w.put(&logfmt.Record{}, w.line, 0))
	}
	for _, f := range w.all() {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

func (w *Writer) all() []*file {
	if w.shared != nil {
		return []*file{w.shared}
	}
	out := make([]*file, 0, len(w.files))
	for _, f := range w.files {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *file) int { return strings.Compare(a.path, b.path) })
	return out
}

// Files accounts for every file written, rotated ones under the name they have now.
func (w *Writer) Files() []truth.LogFile {
	var out []truth.LogFile
	for _, f := range w.all() {
		out = append(out, f.files...)
	}
	return out
}

// Lines is the number of physical lines written, NoiseLines how many foreign
// ones were asked for.
func (w *Writer) Lines() int64 { return w.lines }

// NoiseLines is the number of foreign lines among them, before a container
// runtime cut any.
func (w *Writer) NoiseLines() int64 { return w.noises }
