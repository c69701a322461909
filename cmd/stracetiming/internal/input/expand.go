// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package input turns the paths of a command line into a stream of what the
// marker language's scanner finds in them.
package input // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/input"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Group is files that one name space of process ids wrote. Several are read
// side by side, in the order of their log times.
type Group struct {
	// Scope tells the group's process ids from those of others.
	Scope string
	Files []string
}

// maxMerged bounds the files read side by side, each of which needs a file
// descriptor and a buffer.
const maxMerged = 512

// ErrNoFiles is a directory without log files in it.
var ErrNoFiles = errors.New("the directory holds no host.*.log files")

// perProcess is the name the runtime gives one process's log; a rotated one
// has a suffix, and either may be compressed.
var perProcess = regexp.MustCompile(`^host\.(\d+)\.log$`)

// rotation is what log rotation adds to a name.
var rotation = regexp.MustCompile(`([.-]\d+)?(\.gz)?$`)

// Expand resolves paths to groups, in order. A directory stands for the
// host.*.log files in it. Files host.<pid>.log of one directory, given as such
// or one by one, form one group: they are the processes of one run. Every
// other file is a group of its own, but the rotations of one log share a
// scope. A file given twice is read once.
func Expand(paths []string) ([]Group, error) {
	var e expansion
	for _, path := range paths {
		if err := e.add(path); err != nil {
			return nil, err
		}
	}
	return e.groups, nil
}

type expansion struct {
	groups []Group
	seen   []os.FileInfo
}

func (e *expansion) add(path string) error {
	if path == Stdin {
		e.groups = append(e.groups, Group{Scope: Stdin, Files: []string{Stdin}})
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	if !info.IsDir() {
		e.addFile(path, info)
		return nil
	}
	files, err := logFiles(path)
	if err != nil {
		return err
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("opening the log: %w", err)
		}
		e.addFile(file, info)
	}
	return nil
}

// logFiles lists the host.*.log files of a directory, sorted by name.
func logFiles(dir string) ([]string, error) {
	var files []string
	for _, pattern := range []string{"host.*.log", "host.*.log.gz"} {
		found, err := filepath.Glob(filepath.Join(escapeGlob(dir), pattern))
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", dir, err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoFiles)
	}
	slices.Sort(files)
	return files, nil
}

var globMeta = regexp.MustCompile(`[\\*?\[]`)

func escapeGlob(path string) string { return globMeta.ReplaceAllString(path, `\$0`) }

func (e *expansion) addFile(path string, info os.FileInfo) {
	if slices.ContainsFunc(e.seen, func(o os.FileInfo) bool { return os.SameFile(o, info) }) {
		return
	}
	e.seen = append(e.seen, info)
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	stem := rotation.ReplaceAllString(name, "")
	if !perProcess.MatchString(stem) {
		e.groups = append(e.groups, Group{Scope: filepath.Join(dir, stem), Files: []string{path}})
		return
	}
	for i := range e.groups {
		g := &e.groups[i]
		if g.Scope == dir && len(g.Files) < maxMerged {
			g.Files = append(g.Files, path)
			return
		}
	}
	e.groups = append(e.groups, Group{Scope: dir, Files: []string{path}})
}

// Size is the sum of the files' sizes on disk, and whether all are known.
func Size(groups []Group) (bytes int64, known bool) {
	for _, g := range groups {
		for _, path := range g.Files {
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() {
				return 0, false
			}
			bytes += info.Size()
		}
	}
	return bytes, true
}

// describe names a position in a file for an error.
func describe(path string, offset int64) string {
	if path == Stdin {
		path = "standard input"
	}
	return path + " at byte " + strconv.FormatInt(offset, 10)
}
