// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// Grafana's grid is 24 wide.
const (
	third       = 8
	half        = 12
	sixth       = 4
	statHeight  = 4
	graphHeight = 8
)

// board is a dashboard: variables, then rows of panels.
type board struct {
	uid, title, help string
	variables        []variable
	rows             []row
}

type row struct {
	title  string
	panels []panel
}

// variable is a drop-down filled with a label's values.
type variable struct{ name, label, from, of string }

type kind int

const (
	lines kind = iota
	stacked
	shares
	number
	heat
)

type panel struct {
	kind    kind
	title   string
	help    string
	unit    string
	width   uint32
	queries []query
}

type query struct {
	expr, legend string
	// exemplars draws the traces behind the numbers, and leads there.
	exemplars bool
}

// build uses the first schema: every Grafana reads it, the second only new ones.
func (b board) build() (dashboard.Dashboard, error) { //nolint:staticcheck // see above
	d := dashboard.NewDashboardBuilder(b.title). //nolint:staticcheck // see above
							Uid(b.uid).
							Description(b.help).
							Tags([]string{"phasecol"}).
							Tooltip(dashboard.DashboardCursorSyncCrosshair).
							Time("now-1h", "now").
							Refresh("30s").
							Timezone("browser").
							Readonly().
							Link(dashboard.NewDashboardLinkBuilder("phasecol").
								Type(dashboard.DashboardLinkTypeDashboards).
								Tags([]string{"phasecol"}).
								AsDropdown(true).
								KeepTime(true)).
							WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus"))
	for _, v := range b.variables {
		d = d.WithVariable(v.build())
	}
	for _, r := range b.rows {
		d = d.WithRow(dashboard.NewRowBuilder(r.title))
		for _, p := range r.panels {
			d = d.WithPanel(p.build())
		}
	}
	return d.Build()
}

func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}

func (v variable) build() cog.Builder[dashboard.VariableModel] {
	q := "label_values(" + v.from + ", " + v.of + ")"
	all := dashboard.VariableOption{
		Selected: cog.ToPtr(true),
		Text:     dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
		Value:    dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
	}
	return dashboard.NewQueryVariableBuilder(v.name).
		Label(v.label).
		Datasource(source()).
		Query(dashboard.StringOrMap{String: cog.ToPtr(q)}).
		Definition(q).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		IncludeAll(true).
		// Also matches series without the label.
		AllValue(".*").
		Current(all).
		Multi(true)
}

// refs name a panel's queries.
const refs = "ABCDEFGHIJKLMNOP"

func (p panel) targets() []cog.Builder[dashboardQuery] {
	out := make([]cog.Builder[dashboardQuery], 0, len(p.queries))
	for i, q := range p.queries {
		t := prometheus.NewDataqueryBuilder().
			Datasource(source()).
			RefId(refs[i : i+1]).
			Expr(q.expr).
			LegendFormat(q.legend)
		if p.kind == number {
			t = t.Instant()
		} else {
			t = t.Range()
		}
		if p.kind == heat {
			t = t.Format(prometheus.PromQueryFormatHeatmap)
		}
		if q.exemplars {
			t = t.Exemplar(true)
		}
		out = append(out, t)
	}
	return out
}

func (p panel) build() cog.Builder[dashboard.Panel] {
	switch p.kind {
	case number:
		return stat.NewPanelBuilder().
			Title(p.title).Description(p.help).Unit(p.unit).
			Datasource(source()).Span(p.width).Height(statHeight).
			GraphMode(common.BigValueGraphModeNone).
			ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
			Targets(p.targets())
	case heat:
		return heatmap.NewPanelBuilder().
			Title(p.title).Description(p.help).
			Datasource(source()).Span(p.width).Height(graphHeight).
			YAxis(heatmap.NewYAxisConfigBuilder().Unit(p.unit)).
			Targets(p.targets())
	default:
		return p.graph()
	}
}

func (p panel) graph() cog.Builder[dashboard.Panel] {
	b := timeseries.NewPanelBuilder().
		Title(p.title).Description(p.help).Unit(p.unit).
		Datasource(source()).Span(p.width).Height(graphHeight).
		Min(0).
		LineWidth(1).
		ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().
			ShowLegend(true).
			DisplayMode(common.LegendDisplayModeTable).
			Placement(common.LegendPlacementBottom).
			Calcs([]string{"mean", "lastNotNull"})).
		Tooltip(common.NewVizTooltipOptionsBuilder().
			Mode(common.TooltipDisplayModeMulti).
			Sort(common.SortOrderDescending)).
		Targets(p.targets())
	switch p.kind {
	case stacked:
		b = b.FillOpacity(40).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
	case shares:
		b = b.FillOpacity(40).Max(1).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
	default:
		b = b.FillOpacity(5)
	}
	return b
}
