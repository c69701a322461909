// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bufio"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

// documented are the metrics in the tables of docs/metrics.md: the first cell of
// a row, and whether the row says that the metric may be absent.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	rows := regexp.MustCompile("(?m)^\\| `((?:otelcol|phase|traces|gen_ai|promhttp|target)_[a-z_]+)`( \\(\\*\\))? \\|").FindAllStringSubmatch(readFile(t, filepath.Join(harness.Root(t), "docs", "metrics.md")), -1)
	for _, row := range rows {
		assert.False(t, has(out, row[1]), "%s is documented twice", row[1])
		out[row[1]] = row[2] != ""
	}
	return out
}

func has(m map[string]bool, name string) bool {
	_, ok := m[name]
	return ok
}

// exposed are the names of the metrics that an endpoint serves.
func exposed(t *testing.T, address string) map[string]bool {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics") //nolint:noctx // loopback
	require.NoError(t, err)
	defer resp.Body.Close()
	out := map[string]bool{}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "# TYPE "); ok {
			out[name[:strings.IndexByte(name, ' ')]] = true
		}
	}
	require.NoError(t, lines.Err())
	return out
}

// checkDocumented: what the Collector serves is in docs/metrics.md, and what is
// there is served, unless the row says that it comes with its first event.
func (s *scenario) checkDocumented(t *testing.T) {
	got := exposed(t, s.collector.Metrics)
	maps.Copy(got, exposed(t, s.collector.Own))
	docs := documented(t)
	for _, name := range slices.Sorted(maps.Keys(got)) {
		assert.True(t, has(docs, name), "docs/metrics.md does not know %s", name)
	}
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		if !docs[name] {
			assert.True(t, got[name], "docs/metrics.md has %s, the collector does not", name)
		}
	}
}

// Every value of phase.name has its row, and every row its value.
func TestEveryPhaseIsDocumented(t *testing.T) {
	root := harness.Root(t)
	rows := map[string]bool{}
	_, table, _ := strings.Cut(readFile(t, filepath.Join(root, "docs", "metrics.md")), "\n### Phases\n")
	table, _, _ = strings.Cut(table, "\n### ")
	for _, line := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(table, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line[1], -1) {
			rows[name[1]] = true
		}
	}
	config := readFile(t, filepath.Join(root, "config", "metrics.yaml"))
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`key: phase\.name, default_value: ([a-z0-9_.]+)`).FindAllStringSubmatch(config, -1) {
		if name, ok := strings.CutPrefix(m[1], "bind."); ok && name != "" {
			m[1] = "bind.*"
		}
		names[m[1]] = true
	}
	assert.Equal(t, slices.Sorted(maps.Keys(names)), slices.Sorted(maps.Keys(rows)))
}

// Every metric that a dashboard or a rule names is documented.
func TestQueriesNameDocumentedMetrics(t *testing.T) {
	docs := documented(t)
	exprs := map[string]string{}
	for _, q := range targets(t) {
		exprs[q.name()] = q.expr
	}
	recorded := map[string]bool{}
	for _, r := range rulesAsWritten(t) {
		exprs[r.Alert+r.Record] = r.Expr
		recorded[r.Record] = true
	}
	metric := regexp.MustCompile(`\b(otelcol|phase|traces|gen_ai)_[a-z_]+\b`)
	braces := regexp.MustCompile(`\{[^}]*\}|by \([^)]*\)|on \([^)]*\)`)
	record := regexp.MustCompile(`phasecol:[a-z_]+:[a-z0-9_]+`)
	for where, expr := range exprs {
		for _, name := range metric.FindAllString(braces.ReplaceAllString(expr, ""), -1) {
			base := name
			if _, ok := docs[name]; !ok {
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					base = strings.TrimSuffix(base, suffix)
				}
			}
			assert.True(t, has(docs, base), "%s: docs/metrics.md does not know %s", where, base)
		}
		for _, name := range record.FindAllString(expr, -1) {
			assert.True(t, recorded[name], "%s: no rule records %s", where, name)
		}
	}
}

// Every duration of pkg/strace/semconv becomes a phase.duration, or a metric of
// its own, or is named here with the reason why not.
func TestEveryPhaseHasAMetric(t *testing.T) {
	root := harness.Root(t)
	config := readFile(t, filepath.Join(root, "config", "metrics.yaml"))
	not := map[string]string{
		"phase.bind.": "a prefix; the segments are listed one by one",
		"phase.ranks": "a number of processes", "phase.critical_rank": "may be a pid", "phase.ttft.estimated": "a flag",
		"phase.host_runs": "a number; runs are counted by host_wall", "phase.steps": "a number; steps are counted by step",
		"phase.partial": "a flag; otelcol_processor_phase_partial counts it", "phase.link": "of links",
		"phase.copy_of.trace_id": "an id", "phase.copy_of.span_id": "an id",
		"phase.seen": "a flag",
	}
	names := regexp.MustCompile(`= "(phase\.[a-z_.]+)"`).FindAllStringSubmatch(readFile(t, filepath.Join(root, "pkg", "strace", "semconv", "semconv.go")), -1)
	require.Greater(t, len(names), 40)
	for _, m := range names {
		if _, ok := not[m[1]]; !ok {
			assert.True(t, strings.Contains(config, `["`+m[1]+`"]`) || strings.Contains(config, "key: "+m[1]+","), "config/metrics.yaml lacks %s", m[1])
		}
	}
	// Segments of bind that the processor spells out.
	segments := regexp.MustCompile(`PhaseBindPrefix \+ "(\w+)"`).FindAllStringSubmatch(readFile(t, filepath.Join(root, "processor", "phaseprocessor", "internal", "phases", "stage.go")), -1)
	require.NotEmpty(t, segments)
	for _, m := range segments {
		assert.True(t, strings.Contains(config, `"phase.bind.`+m[1]+`"`), "config/metrics.yaml lacks phase.bind.%s", m[1]) //nolint:testifylint // the text is long
	}
}

func TestMain(m *testing.M) { os.Exit(m.Run()) }
