// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/phasecol/phasecol/test/harness"
)

// checkRules looks at the rules as Prometheus evaluates them, and evaluates
// each recording rule once more over the window whose truth is known.
func (s *scenario) checkRules(t *testing.T, f *facts, window int, at time.Time) {
	host := hostName(t)
	want := map[string]expectation{
		"phasecol:ttft_seconds:p95_5m":      quantileOf(0.95, long, ofAtom(f.phases["ttft"])),
		"phasecol:ttft_seconds:mean_5m":     means(ofAtom(f.phases["ttft"])),
		"phasecol:tpot_seconds:p95_5m":      quantileOf(0.95, fine, ofAtom(f.phases["tpot"])),
		"phasecol:tpot_seconds:mean_5m":     means(ofAtom(f.phases["tpot"])),
		"phasecol:sequences:rate_5m":        rateOf(sizes(ofAtom(f.phases["e2e"])), float64(window)),
		"phasecol:engine_gap:share_5m":      shares(ofAtom(f.phases["engine_gap"]), ofAtom(f.phases["engine_gap"]), ofAtom(f.phases["host_busy"])),
		"phasecol:host_overhead:share_5m":   shares(around(host, f.phases["host_overhead"]), around(host, f.phases["host_wall"])),
		"phasecol:rank_skew:share_5m":       equal(values{host + " simpler": sum(f.all("rank_skew")) / sum(f.all("step"))}),
		"phasecol:device_gap:share_5m":      atMost(1),
		"phasecol:contract_broken:share_5m": nothing,
		"phasecol:unjoined:share_5m":        atMostOrNothing(0.2),
	}
	var answer rulesAnswer
	require.Eventually(t, func() bool {
		answer = rulesAnswer{}
		if err := s.prom.get("rules", nil, &answer); err != nil {
			return false
		}
		for _, g := range answer.Groups {
			for _, r := range g.Rules {
				if r.Health == "unknown" {
					return false
				}
			}
		}
		return true
	}, 20*time.Second, 200*time.Millisecond, "not all rules were evaluated")
	rules := 0
	for _, g := range answer.Groups {
		for _, r := range g.Rules {
			rules++
			assert.Equal(t, "ok", r.Health, "%s: %s", r.Name, r.LastError)
			if r.Type == "alerting" {
				assert.NotEqual(t, "firing", r.State, "%s: nothing is wrong", r.Name)
				continue
			}
			expect, ok := want[r.Name]
			if !assert.True(t, ok, "nothing says what %s should be", r.Name) {
				continue
			}
			got, err := s.prom.query(strings.ReplaceAll(r.Query, "[5m]", fmt.Sprintf("[%ds]", window)), at)
			require.NoError(t, err, r.Name)
			expect(t, r.Name, got)
			if len(got) > 0 {
				assert.NotEmpty(t, s.must(t, `{__name__="`+r.Name+`"}`), "%s is not recorded", r.Name)
			}
		}
	}
	assert.Greater(t, rules, len(want))
}

// nothing is what a rule returns about what never happened.
func nothing(t *testing.T, what string, got []sample) {
	assert.Empty(t, got, what)
}

func atMostOrNothing(high float64) expectation {
	return func(t *testing.T, what string, got []sample) {
		if len(got) > 0 {
			atMost(high)(t, what, got)
		}
	}
}

// ofAtom puts the service of the requests behind their model.
func ofAtom(of map[string][]float64) map[string][]float64 {
	out := make(map[string][]float64, len(of))
	for k, v := range of {
		out[k+" atom"] = v
	}
	return out
}

// around puts a callable between host and service: host_name, service_name,
// strace_callable in this order.
func around(host string, of map[string][]float64) map[string][]float64 {
	return prefixed(host+" simpler ", of)
}

func shares(part map[string][]float64, whole ...map[string][]float64) expectation {
	want := values{}
	for k, v := range part {
		var all float64
		for _, w := range whole {
			all += sum(w[k])
		}
		want[k] = sum(v) / all
	}
	return equal(want)
}

// The rules by themselves: promtool's check, and its unit tests, which fire
// every alert and leave it silent.
func TestPromtool(t *testing.T) {
	dir := filepath.Join(harness.Root(t), "deploy", "prometheus")
	for _, args := range [][]string{{"check", "config", "prometheus.yaml"}, {"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), tool(t, "promtool"), args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "promtool %v: %s", args, out)
	}
}

// rule is one as written.
type rule struct {
	Alert       string            `yaml:"alert"`
	Record      string            `yaml:"record"`
	Expr        string            `yaml:"expr"`
	Annotations map[string]string `yaml:"annotations"`
}

func rulesAsWritten(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, filepath.Join(harness.Root(t), "deploy", "prometheus", "rules.yaml"))), &file))
	var out []rule
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

func TestEveryAlertHasATestAndASectionInTheRunbook(t *testing.T) {
	root := harness.Root(t)
	tests := readFile(t, filepath.Join(root, "deploy", "prometheus", "rules_test.yaml"))
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (Phasecol\w+)$`).FindAllStringSubmatch(readFile(t, filepath.Join(root, "docs", "runbook.md")), -1) {
		sections[m[1]] = true
	}
	for _, r := range rulesAsWritten(t) {
		if r.Alert == "" {
			continue
		}
		assert.True(t, strings.Contains(tests, "alertname: "+r.Alert+"\n"), "rules_test.yaml never fires %s", r.Alert) //nolint:testifylint // the text is long
		assert.Equal(t, "docs/runbook.md#"+strings.ToLower(r.Alert), r.Annotations["runbook"])
		assert.True(t, sections[r.Alert], "docs/runbook.md has no section %s", r.Alert)
		delete(sections, r.Alert)
	}
	assert.Empty(t, sections, "sections of the runbook without an alert")
}
