// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// folders has stand-ins for the programs of two architectures.
func folders(t *testing.T) (args []string) {
	t.Helper()
	for _, arch := range []string{"arm64", "amd64"} {
		dir := t.TempDir()
		for _, program := range binaries {
			require.NoError(t, os.WriteFile(filepath.Join(dir, program), []byte(program+" for "+arch), 0o600))
		}
		args = append(args, "-folder", arch+"="+dir)
	}
	configs := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(configs, "agent.yaml"), []byte("{}\n"), 0o600))
	return append(args, "-configs", configs, "-version", "1.2.3", "-revision", "abc", "-epoch", "1700000000")
}

func TestLayout(t *testing.T) {
	args := folders(t)
	out := filepath.Join(t.TempDir(), "image")
	require.NoError(t, run(append(args, "-out", out)))
	outer, err := layout.ImageIndexFromPath(out)
	require.NoError(t, err)
	require.NoError(t, validate.Index(outer))
	index := inner(t, outer)

	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 2)
	assert.Equal(t, "1.2.3", manifest.Annotations["org.opencontainers.image.version"])
	for i, arch := range []string{"amd64", "arm64"} {
		descriptor := manifest.Manifests[i]
		assert.Equal(t, v1.Platform{OS: "linux", Architecture: arch}, *descriptor.Platform)
		image, err := index.Image(descriptor.Digest)
		require.NoError(t, err)
		config, err := image.ConfigFile()
		require.NoError(t, err)
		assert.Equal(t, arch, config.Architecture)
		assert.Equal(t, "10001:10001", config.Config.User)
		assert.Equal(t, []string{"/phasecol"}, config.Config.Entrypoint)
		assert.Equal(t, "abc", config.Config.Labels["org.opencontainers.image.revision"])
		assert.Equal(t, time.Unix(1700000000, 0).UTC(), config.Created.UTC())

		files := extract(t, image)
		assert.Equal(t, "phasecol for "+arch, files["phasecol"].content)
		assert.Equal(t, int64(0o755), files["phasecol"].mode)
		assert.Equal(t, "{}\n", files["etc/phasecol/agent.yaml"].content)
		assert.Equal(t, 10001, files["var/lib/phasecol/"].uid)
		assert.Zero(t, files["phasecol"].uid)
		assert.Greater(t, strings.Count(files["etc/ssl/certs/ca-certificates.crt"].content, "BEGIN CERTIFICATE"), 100)
	}
}

func TestSameReleaseSameDigest(t *testing.T) {
	args := folders(t)
	var digests []v1.Hash
	for range 2 {
		out := filepath.Join(t.TempDir(), "image")
		require.NoError(t, run(append(args, "-out", out)))
		outer, err := layout.ImageIndexFromPath(out)
		require.NoError(t, err)
		digest, err := inner(t, outer).Digest()
		require.NoError(t, err)
		digests = append(digests, digest)
	}
	assert.Equal(t, digests[0], digests[1])
}

func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/phasecol/phasecol:1.2.3"
	require.NoError(t, run(append(folders(t), "-push", ref)))
	parsed, err := name.ParseReference(ref)
	require.NoError(t, err)
	index, err := remote.Index(parsed)
	require.NoError(t, err)
	assert.NoError(t, validate.Index(index))
}

func TestErrors(t *testing.T) {
	for args, want := range map[string]string{
		"":                      "no -folder",
		"-folder amd64":         "amd64=folder",
		"-folder amd64=nowhere": "no configurations",
		"-folder amd64=nowhere -configs ../../../config": "reading a program",
	} {
		assert.ErrorContains(t, run(strings.Fields(args)), want)
	}
}

// inner is the one index in the layout.
func inner(t *testing.T, outer v1.ImageIndex) v1.ImageIndex {
	t.Helper()
	manifest, err := outer.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	return index
}

type entry struct {
	content string
	mode    int64
	uid     int
}

func extract(t *testing.T, image v1.Image) map[string]entry {
	t.Helper()
	files := map[string]entry{}
	blob := mutate.Extract(image)
	defer blob.Close()
	for r := tar.NewReader(blob); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		name := header.Name
		if header.Typeflag == tar.TypeDir {
			name = strings.TrimSuffix(name, "/") + "/"
		}
		files[name] = entry{string(content), header.Mode, header.Uid}
	}
}
