// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Command prepare gives a folder of the node to the agent's user, as an init
// container: a kubelet makes it for root. It needs CAP_CHOWN and nothing else.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: prepare FOLDER UID")
		os.Exit(2)
	}
	if err := prepare(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

// prepare makes dir and gives it and all below to owner. The group stays, with
// the same rights: without the capability to look anywhere, it is the group that
// lets this program in again next time.
func prepare(dir, owner string) error {
	uid, err := strconv.Atoi(owner)
	if err != nil || uid <= 0 {
		return errors.New("the second argument is the number of a user that is not root")
	}
	if err := os.MkdirAll(dir, 0o770); err != nil { //nolint:gosec // the group is root's, the folder the caller's
		return fmt.Errorf("making the folder: %w", err)
	}
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error { //nolint:gosec // the folder is the caller's to name
		if err != nil {
			return err
		}
		return give(path, entry, uid)
	})
}

// give changes the rights while the file is still ours, then the owner.
func give(path string, entry fs.DirEntry, uid int) error {
	info, err := entry.Info()
	if err != nil {
		return fmt.Errorf("looking: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("no owner to be seen")
	}
	if entry.IsDir() && int(stat.Uid) == os.Geteuid() {
		if err := os.Chmod(path, 0o770); err != nil { //nolint:gosec // the group is root's
			return fmt.Errorf("opening the folder to its group: %w", err)
		}
	}
	if err := os.Lchown(path, uid, -1); err != nil {
		return fmt.Errorf("giving it away: %w", err)
	}
	return nil
}
