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

// ScopeKey names the pid name space that the path's file belongs to: its
// container, one restart of it, or else the directory.
func ScopeKey(path string) string {
	id, ok := IdentityOf(path)
	switch {
	case !ok:
		return "dir:" + filepath.ToSlash(filepath.Dir(path))
	case id.PodUID != "":
		return strings.Join([]string{"k8s:" + id.Namespace, id.Pod, id.PodUID, id.Container, id.RestartCount}, "/")
	default:
		return "container:" + id.ContainerID
	}
}
