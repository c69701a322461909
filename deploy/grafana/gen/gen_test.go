// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDashboardsAreCheckedInAsGenerated(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, write(dir))
	checkedIn, err := os.ReadDir("../dashboards")
	require.NoError(t, err)
	require.Len(t, checkedIn, len(boards()), "a dashboard without code, or code without a dashboard")
	for name := range boards() {
		want, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join("..", "dashboards", name))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got), "%s: run make generate and commit", name)
	}
}

func TestDashboardsAreComplete(t *testing.T) {
	uids := map[string]bool{}
	for name, b := range boards() {
		assert.False(t, uids[b.uid], "%s: uid %s is taken", name, b.uid)
		uids[b.uid] = true
		titles := map[string]kind{}
		for _, r := range b.rows {
			var width uint32
			for _, p := range r.panels {
				k, taken := titles[p.title]
				assert.False(t, taken && (k == number) == (p.kind == number), "%s: two panels named %q", name, p.title)
				titles[p.title] = p.kind
				assert.NotEmpty(t, p.queries, "%s: %q", name, p.title)
				assert.NotEmpty(t, p.unit, "%s: %q", name, p.title)
				assert.LessOrEqual(t, len(p.queries), len(refs), "%s: %q", name, p.title)
				width += p.width
			}
			assert.Zero(t, width%24, "%s: row %q leaves a hole", name, r.title)
		}
	}
}

// What Grafana reads: the first target of the first panel in the written JSON.
func TestRenderedShape(t *testing.T) {
	text, err := render(board{uid: "u", title: "T", rows: []row{{"R", []panel{
		{number, "N", "h", "s", third, []query{{expr: "up"}}},
		{lines, "L", "h", "s", third, []query{{expr: "rate(a[1m])", legend: "x", exemplars: true}, {expr: "b"}}},
	}}}})
	require.NoError(t, err)
	var got struct {
		UID    string `json:"uid"`
		Panels []struct {
			Type    string `json:"type"`
			Title   string `json:"title"`
			Targets []struct {
				RefID    string `json:"refId"`
				Expr     string `json:"expr"`
				Instant  bool   `json:"instant"`
				Range    bool   `json:"range"`
				Exemplar bool   `json:"exemplar"`
			} `json:"targets"`
		} `json:"panels"`
	}
	require.NoError(t, json.Unmarshal(text, &got))
	assert.Equal(t, "u", got.UID)
	require.Len(t, got.Panels, 3)
	assert.Equal(t, "row", got.Panels[0].Type)
	assert.Equal(t, "stat", got.Panels[1].Type)
	require.Len(t, got.Panels[1].Targets, 1)
	assert.True(t, got.Panels[1].Targets[0].Instant)
	assert.Equal(t, "timeseries", got.Panels[2].Type)
	require.Len(t, got.Panels[2].Targets, 2)
	assert.Equal(t, "A", got.Panels[2].Targets[0].RefID)
	assert.Equal(t, "rate(a[1m])", got.Panels[2].Targets[0].Expr)
	assert.True(t, got.Panels[2].Targets[0].Exemplar)
	assert.Equal(t, "B", got.Panels[2].Targets[1].RefID)
	assert.False(t, got.Panels[2].Targets[1].Exemplar)
}
