// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"
)

// points is how many a line has.
const points = 120

// source is a Prometheus and the range to draw.
type source struct {
	server         string
	end            time.Time
	length, window time.Duration
}

// series is a line: NaN where there is no value.
type series struct {
	name   string
	labels map[string]string
	at     []float64
	values []float64
}

func (s source) fill(expr string) string {
	return strings.NewReplacer(
		"$__rate_interval", fmt.Sprintf("%ds", int(s.window.Seconds())),
		"$service", ".*", "$host", ".*", "$model", ".*", "$callable", ".*", "$instance", ".*",
	).Replace(expr)
}

var placeholder = regexp.MustCompile(`\{\{(\w+)\}\}`)

// query evaluates expr over the range.
func (s source) query(expr, legend string) ([]series, error) {
	step := s.length.Seconds() / points
	params := url.Values{
		"query": {s.fill(expr)},
		"start": {unix(s.end.Add(-s.length))}, "end": {unix(s.end)},
		"step": {strconv.FormatFloat(step, 'f', 3, 64)},
	}
	resp, err := http.Get(s.server + "/api/v1/query_range?" + params.Encode()) //nolint:noctx // a command line tool; the user names the server
	if err != nil {
		return nil, fmt.Errorf("asking Prometheus: %w", err)
	}
	defer resp.Body.Close()
	var answer struct {
		Error string `json:"error"`
		Data  struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
				Values [][2]any          `json:"values"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("decoding Prometheus's answer: %w", err)
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	out := make([]series, 0, len(answer.Data.Result))
	for _, r := range answer.Data.Result {
		line := series{labels: r.Metric, name: placeholder.ReplaceAllStringFunc(legend, func(p string) string { return r.Metric[p[2:len(p)-2]] })}
		for _, v := range r.Values {
			at, _ := v[0].(float64)
			text, _ := v[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("a sample's value: %w", err)
			}
			line.at = append(line.at, at-unixSeconds(s.end))
			line.values = append(line.values, value)
		}
		out = append(out, line)
	}
	sort.Slice(out, func(i, k int) bool { return out[i].name < out[k].name })
	return out, nil
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

func unix(t time.Time) string { return strconv.FormatFloat(unixSeconds(t), 'f', 3, 64) }
