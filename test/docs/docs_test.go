// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs holds the pages for readers against the code.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

// constants returns the string constants of pkg/strace/semconv.
func constants(t *testing.T) map[string]bool {
	t.Helper()
	path := filepath.Join(harness.Root(t), "pkg", "strace", "semconv", "semconv.go")
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	values := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			value, err := strconv.Unquote(lit.Value)
			require.NoError(t, err)
			values[value] = true
		}
		return true
	})
	require.Greater(t, len(values), 80)
	return values
}

// TestConventions: every name in the code is explained in docs/conventions.md,
// and every attribute named there exists in the code.
func TestConventions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(harness.Root(t), "docs", "conventions.md"))
	require.NoError(t, err)
	explained := map[string]bool{}
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(string(text), -1) {
		explained[strings.TrimSuffix(m[1], "*")] = true
	}
	names := constants(t)
	for name := range names {
		assert.Truef(t, explained[name], "docs/conventions.md does not explain %s", name)
	}
	for name := range explained {
		if strings.HasPrefix(name, "strace.") || strings.HasPrefix(name, "phase.") || strings.HasPrefix(name, "run.") || strings.HasPrefix(name, "level.") {
			assert.Truef(t, names[name], "docs/conventions.md explains %s, which the code does not have", name)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)

// TestLinks: relative links in the Markdown pages lead somewhere.
func TestLinks(t *testing.T) {
	root := harness.Root(t)
	for _, page := range pages(t, root) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			_, err := os.Stat(filepath.Join(filepath.Dir(page), m[1]))
			assert.NoErrorf(t, err, "%s links to %s", strings.TrimPrefix(page, root+"/"), m[1])
		}
	}
}

// pages are the Markdown files that belong to the repository.
func pages(t *testing.T, root string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "run" || name == "bin" || name == "node_modules") && path != root {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, ".md") {
			found = append(found, path)
		}
		return nil
	}))
	return found
}
