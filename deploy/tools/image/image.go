// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// uid is who the image runs as, and the group of its files.
const uid = 10001

// release is what an image is made of. The same release gives the same digest.
type release struct {
	Version, Revision string
	// Created is the time of all files and of the image.
	Created time.Time
	// Configs is the folder of configurations.
	Configs string
	// Folders has, by architecture, the folder with the binaries.
	Folders map[string]string
}

// binaries are the programs of an image, each in its layer's root.
var binaries = []string{"prepare", "phasecol"}

// index makes the image of every architecture.
func (r *release) index() (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	architectures := make([]string, 0, len(r.Folders))
	for arch := range r.Folders {
		architectures = append(architectures, arch)
	}
	slices.Sort(architectures)
	for _, arch := range architectures {
		image, err := r.image(arch)
		if err != nil {
			return nil, fmt.Errorf("making the image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return mutate.Annotations(index, r.labels()).(v1.ImageIndex), nil
}

// image makes the image of one architecture: what changes least comes first, so
// that an upgrade pulls little.
func (r *release) image(arch string) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, r.config(arch))
	if err != nil {
		return nil, fmt.Errorf("setting its configuration: %w", err)
	}
	base, err := r.base()
	if err != nil {
		return nil, err
	}
	configs, err := r.configs()
	if err != nil {
		return nil, err
	}
	layers := []struct {
		what  string
		files []file
	}{{"certificates and folders", base}, {"configurations", configs}}
	for _, name := range binaries {
		content, err := os.ReadFile(filepath.Join(r.Folders[arch], name))
		if err != nil {
			return nil, fmt.Errorf("reading a program: %w", err)
		}
		layers = append(layers, struct {
			what  string
			files []file
		}{name, []file{{name: name, mode: 0o755, content: content}}})
	}
	for _, layer := range layers {
		blob, err := r.layer(layer.files)
		if err != nil {
			return nil, fmt.Errorf("making the layer of %s: %w", layer.what, err)
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer:   blob,
			History: v1.History{CreatedBy: layer.what, Created: v1.Time{Time: r.Created}},
		})
		if err != nil {
			return nil, fmt.Errorf("adding the layer of %s: %w", layer.what, err)
		}
	}
	return mutate.Annotations(image, r.labels()).(v1.Image), nil
}

func (r *release) config(arch string) *v1.ConfigFile {
	return &v1.ConfigFile{
		Architecture: arch,
		OS:           "linux",
		Created:      v1.Time{Time: r.Created},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:         fmt.Sprintf("%d:%d", uid, uid),
			Entrypoint:   []string{"/phasecol"},
			Cmd:          []string{"--config", "/etc/phasecol/agent.yaml"},
			Env:          []string{"PHASECOL_STATE=/var/lib/phasecol"},
			WorkingDir:   "/",
			ExposedPorts: map[string]struct{}{"4317/tcp": {}, "4318/tcp": {}, "8888/tcp": {}, "8889/tcp": {}, "13133/tcp": {}},
			Labels:       r.labels(),
		},
	}
}

func (r *release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":         "phasecol",
		"org.opencontainers.image.description":   "OpenTelemetry Collector that follows a token from HTTP request to NPU phase",
		"org.opencontainers.image.source":        "https://github.com/phasecol/phasecol",
		"org.opencontainers.image.documentation": "https://github.com/phasecol/phasecol/blob/main/docs/deploy.md",
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.vendor":        "The phasecol Authors",
		"org.opencontainers.image.version":       r.Version,
		"org.opencontainers.image.revision":      r.Revision,
		"org.opencontainers.image.created":       r.Created.Format(time.RFC3339),
	}
}

// file is one entry of a layer; a folder when its name ends in a slash.
type file struct {
	name    string
	mode    int64
	owner   int
	content []byte
}

// base has what a program expects of a system: roots to trust, names for its
// user, a folder to write to.
func (r *release) base() ([]file, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		// Roots that the bundle restricts need its own code to be checked.
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, fmt.Errorf("writing the roots: %w", err)
		}
	}
	return []file{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:\nphasecol:x:%d:\n", uid)},
		{name: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:0:::\nphasecol:x:%d:%d::/var/lib/phasecol:\n", uid, uid)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: roots.Bytes()},
		{name: "tmp/", mode: 0o1777},
		{name: "var/", mode: 0o755},
		{name: "var/lib/", mode: 0o755},
		{name: "var/lib/phasecol/", mode: 0o750, owner: uid},
	}, nil
}

func (r *release) configs() ([]file, error) {
	paths, err := filepath.Glob(filepath.Join(r.Configs, "*.yaml"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no configurations in %s: %w", r.Configs, err)
	}
	files := []file{{name: "etc/", mode: 0o755}, {name: "etc/phasecol/", mode: 0o755}}
	for _, p := range paths {
		content, err := os.ReadFile(p)
		if err != nil {
			return nil, fmt.Errorf("reading a configuration: %w", err)
		}
		files = append(files, file{name: path.Join("etc/phasecol", filepath.Base(p)), mode: 0o644, content: content})
	}
	return files, nil
}

func (r *release) layer(files []file) (v1.Layer, error) {
	var blob bytes.Buffer
	w := tar.NewWriter(&blob)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner,
			Size: int64(len(f.content)), ModTime: r.Created, Format: tar.FormatPAX,
		}
		if f.name[len(f.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("closing: %w", err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(blob.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}
