// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phasecol/phasecol/test/harness"
)

// tool is prometheus or promtool, which setup.sh puts in place.
func tool(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", "setup.sh").Output()
	require.NoError(t, err, "test/metrics/setup.sh")
	return filepath.Join(strings.TrimSpace(string(out)), name)
}

// prometheus is a real one with the shipped configuration: only addresses and
// intervals differ.
type prometheus struct {
	t       *testing.T
	address string
}

func startPrometheus(t *testing.T, metrics, own string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	shipped := filepath.Join(harness.Root(t), "deploy", "prometheus")
	config := readFile(t, filepath.Join(shipped, "prometheus.yaml"))
	for from, to := range map[string]string{
		"interval: 15s":       "interval: 1s",
		"[rules.yaml]":        "[" + filepath.Join(shipped, "rules.yaml") + "]",
		"127.0.0.1:8889":      metrics,
		"127.0.0.1:8888":      own,
		"evaluation_interval": "evaluation_interval",
	} {
		require.Contains(t, config, from)
		config = strings.ReplaceAll(config, from, to)
	}
	path := filepath.Join(dir, "prometheus.yaml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	log, err := os.Create(filepath.Join(dir, "prometheus.log"))
	require.NoError(t, err)
	p := &prometheus{t: t, address: harness.FreeAddress(t)}
	cmd := exec.Command(tool(t, "prometheus"), "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"), //nolint:noctx // ends by signal
		"--web.listen-address="+p.address, "--enable-feature=exemplar-storage,native-histograms")
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = log.Close()
	})
	require.Eventually(t, func() bool {
		resp, err := http.Get("http://" + p.address + "/-/ready") //nolint:noctx // loopback
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, 30*time.Second, 50*time.Millisecond, "Prometheus is not ready: %s", log.Name())
	return p
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// get calls the API and decodes its data into into.
func (p *prometheus) get(path string, params url.Values, into any) error {
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/api/v1/"+path+"?"+params.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Status string          `json:"status"`
		Error  string          `json:"error"`
		Data   json.RawMessage `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("decoding the answer: %w", err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// sample is one element of an instant vector.
type sample struct {
	labels map[string]string
	value  float64
}

// query evaluates an expression at an instant, the zero time being now.
func (p *prometheus) query(expr string, at time.Time) ([]sample, error) {
	var data struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	}
	params := url.Values{"query": {expr}}
	if !at.IsZero() {
		params.Set("time", strconv.FormatFloat(float64(at.UnixMilli())/1e3, 'f', 3, 64))
	}
	if err := p.get("query", params, &data); err != nil {
		return nil, err
	}
	if data.ResultType != "vector" {
		return nil, fmt.Errorf("result is a %s", data.ResultType)
	}
	var vector []struct {
		Metric map[string]string `json:"metric"`
		Value  [2]any            `json:"value"`
	}
	if err := json.Unmarshal(data.Result, &vector); err != nil {
		return nil, err
	}
	out := make([]sample, 0, len(vector))
	for _, v := range vector {
		text, ok := v.Value[1].(string)
		if !ok {
			return nil, fmt.Errorf("sample %v has no value", v.Metric)
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, sample{v.Metric, value})
	}
	return out, nil
}

// value is the single value of an expression, NaN where it has none.
func (p *prometheus) value(expr string) float64 {
	samples, err := p.query(expr, time.Time{})
	require.NoError(p.t, err, expr)
	if len(samples) != 1 {
		return math.NaN()
	}
	return samples[0].value
}

// key is the values of all labels but the metric's name, by the labels' names.
func (s sample) key() string {
	names := make([]string, 0, len(s.labels))
	for name := range s.labels {
		if name != "__name__" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	values := make([]string, 0, len(names))
	for _, name := range names {
		values = append(values, s.labels[name])
	}
	return strings.Join(values, " ")
}
