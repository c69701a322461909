// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Command image makes the container image without a container engine: an OCI
// layout with one image for each architecture. It can also push it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	r := release{Folders: map[string]string{}}
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&r.Version, "version", "", "version in the labels")
	flags.StringVar(&r.Revision, "revision", "", "commit in the labels")
	flags.StringVar(&r.Configs, "configs", "config", "`folder` of configurations")
	epoch := flags.Int64("epoch", 0, "time of everything in the image, Unix seconds")
	out := flags.String("out", "", "`folder` to write the OCI layout to; replaced")
	push := flags.String("push", "", "registry `reference` to push to, with the credentials of docker login")
	flags.Func("folder", "`arch=folder` of phasecol and prepare; repeat it", func(value string) error {
		arch, folder, ok := strings.Cut(value, "=")
		if !ok {
			return errors.New("write it as amd64=folder")
		}
		r.Folders[arch] = folder
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading the flags: %w", err)
	}
	if len(r.Folders) == 0 {
		return errors.New("no -folder: nothing to put into an image")
	}
	r.Created = time.Unix(*epoch, 0).UTC()
	index, err := r.index()
	if err != nil {
		return err
	}
	if *out != "" {
		if err = write(*out, index, r.Version); err != nil {
			return fmt.Errorf("writing %s: %w", *out, err)
		}
	}
	if *push != "" {
		var ref name.Reference
		if ref, err = name.ParseReference(*push); err != nil {
			return fmt.Errorf("reading -push: %w", err)
		}
		if err = remote.WriteIndex(ref, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return fmt.Errorf("pushing to %s: %w", ref, err)
		}
	}
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("taking the digest: %w", err)
	}
	fmt.Println(digest)
	return nil
}

// write puts index into a fresh OCI layout, named version for the tools that
// read it.
func write(dir string, index v1.ImageIndex, version string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version}))
}
