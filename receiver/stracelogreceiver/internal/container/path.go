// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package container // import "github.com/phasecol/phasecol/receiver/stracelogreceiver/internal/container"

import (
	"path/filepath"
	"regexp"
	"strings"
)

// Identity is what a log file's path says of its container.
type Identity struct {
	Namespace, Pod, PodUID, Container string
	// RestartCount is the decimal text of the file's number; empty if unknown.
	RestartCount string
	// ContainerID is set for paths that hold one.
	ContainerID string
}

var (
	// <logs>/<namespace>_<pod>_<uid>/<container>/<restarts>.log[.<rotated>]
	podPath = regexp.MustCompile(`/([a-z0-9-]+)_([a-z0-9.-]+)_([A-Za-z0-9-]+)/([a-z0-9.-]+)/(\d+)\.log(?:\.[^/]*)?$`)
	// <logs>/<pod>_<namespace>_<container>-<64 hex>.log
	linkPath = regexp.MustCompile(`/([a-z0-9.-]+)_([a-z0-9-]+)_([a-z0-9.-]+)-([0-9a-f]{64})\.log(?:\.[^/]*)?$`)
	// <id>/<id>-json.log
	dockerPath = regexp.MustCompile(`/([0-9a-f]{64})/([0-9a-f]{64})-json\.log(?:\.[^/]*)?$`)
)

// IdentityOf reads a path that kubelet or Docker made; ok is false for others.
func IdentityOf(path string) (id Identity, ok bool) {
	path = filepath.ToSlash(path)
	if m := podPath.FindStringSubmatch(path); m != nil {
		return Identity{Namespace: m[1], Pod: m[2], PodUID: m[3], Container: m[4], RestartCount: m[5]}, true
	}
	if m := linkPath.FindStringSubmatch(path); m != nil {
		return Identity{Pod: m[1], Namespace: m[2], Container: m[3], ContainerID: m[4]}, true
	}
	if m := dockerPath.FindStringSubmatch(path); m != nil && m[1] == m[2] {
		return Identity{ContainerID: m[1]}, true
	}
	return Identity{}, false
}

const (
	containerScope = "container:"
	directoryScope = "dir:"
)

// ScopeKey names the pid name space that the path's file belongs to: its
// container, one restart of it, or else the directory. What the path says of
// the container can be read back from it: a restart of the Collector restores
// scopes before it sees their files.
func ScopeKey(path string) string {
	id, ok := IdentityOf(path)
	if !ok {
		return directoryScope + filepath.ToSlash(filepath.Dir(path))
	}
	return containerScope + strings.Join([]string{
		id.Namespace, id.Pod, id.PodUID, id.Container, id.RestartCount, id.ContainerID,
	}, "/")
}

// IdentityOfScope reads a scope's key; ok is false for that of a directory.
func IdentityOfScope(key string) (id Identity, ok bool) {
	rest, ok := strings.CutPrefix(key, containerScope)
	f := strings.Split(rest, "/")
	if !ok || len(f) != 6 {
		return Identity{}, false
	}
	return Identity{Namespace: f[0], Pod: f[1], PodUID: f[2], Container: f[3], RestartCount: f[4], ContainerID: f[5]}, true
}
