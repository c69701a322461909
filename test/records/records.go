// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package records counts what logs hold and what came out of them, sharing no
// code with the Collector, so that tests can say that nothing was lost.
package records // import "github.com/phasecol/phasecol/test/records"

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

var record = regexp.MustCompile(`\[STRACE\] v=1 pid=(\d+) tid=(\d+) inv=(\d+) hid=[0-9a-f]+ depth=(\d+) name=(\S+) ts=\d+ dur=(\d+)`)

// Set counts records, or the spans made of them, by what both have: host,
// process, thread, invocation, depth, name and duration.
type Set map[string]int

// InLogs reads the records of every file below dir. Those without a duration
// are points and become no spans.
func InLogs(t testing.TB, host, dir string) Set {
	t.Helper()
	set := Set{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path) // #nosec G304,G122 -- the test's own logs
		if err != nil {
			return err
		}
		for _, m := range record.FindAllStringSubmatch(string(text), -1) {
			if m[6] != "0" {
				set[strings.Join(append([]string{host}, m[1:]...), " ")]++
			}
		}
		return nil
	}))
	return set
}

// OfSpans counts the spans that are records: no copies, none that a component
// made.
func OfSpans(spans []harness.Span) Set {
	set := Set{}
	for _, s := range spans {
		if s.Str("strace.stage") == "" || s.Str("strace.synthetic") == "true" || s.Copy() {
			continue
		}
		set[fmt.Sprintf("%v %v %s %s %s %s %d", s.Resource["host.name"], s.Resource["process.pid"], s.Str("thread.id"),
			s.Str("strace.inv"), s.Str("strace.depth"), s.Name(), s.Duration())]++
	}
	return set
}

// Len is the number of records.
func (s Set) Len() int {
	n := 0
	for _, count := range s {
		n += count
	}
	return n
}

// Add puts the records of other into s.
func (s Set) Add(other Set) {
	for key, n := range other {
		s[key] += n
	}
}

// Missing lists what s has and got has not, and what only got has.
func (s Set) Missing(got Set) (missing, extra []string) {
	for key, n := range s {
		if got[key] < n {
			missing = append(missing, fmt.Sprintf("%d of %d: %s", n-got[key], n, key))
		}
	}
	for key, n := range got {
		if s[key] < n {
			extra = append(extra, fmt.Sprintf("%d for %d: %s", n, s[key], key))
		}
	}
	return missing, extra
}
