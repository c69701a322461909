// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"image/color"
	"math"
	"sort"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// cells draws a histogram over time: each bucket a row, darker where more fell into it.
func cells(c *plot.Plot, all []series) error {
	type row struct {
		le     float64
		values map[float64]float64
	}
	var rows []row
	for _, s := range all {
		le, err := strconv.ParseFloat(s.labels["le"], 64)
		if err != nil {
			return fmt.Errorf("a bucket's bound: %w", err)
		}
		r := row{le: le, values: map[float64]float64{}}
		for k, at := range s.at {
			r.values[at] = s.values[k]
		}
		rows = append(rows, r)
	}
	sort.Slice(rows, func(i, k int) bool { return rows[i].le < rows[k].le })
	most := 0.0
	for i := len(rows) - 1; i > 0; i-- {
		for at := range rows[i].values {
			rows[i].values[at] = max(0, rows[i].values[at]-rows[i-1].values[at])
			most = max(most, rows[i].values[at])
		}
	}
	var ticks []plot.Tick
	used := 0
	for _, r := range rows {
		if math.IsInf(r.le, 1) || empty(r.values) {
			continue
		}
		used++
		ticks = append(ticks, plot.Tick{Value: float64(used), Label: format(r.le, "s")})
		for at, v := range r.values {
			if v <= 0 {
				continue
			}
			width := -c.X.Min
			if len(all[0].at) > 1 {
				width = all[0].at[1] - all[0].at[0]
			}
			y := float64(used)
			cell, err := plotter.NewPolygon(plotter.XYs{{X: at - width, Y: y - 1}, {X: at, Y: y - 1}, {X: at, Y: y}, {X: at - width, Y: y}})
			if err != nil {
				return fmt.Errorf("a cell: %w", err)
			}
			cell.Color = color.NRGBA{0x4c, 0x78, 0xa8, uint8(30 + 225*v/most)}
			cell.LineStyle.Width = 0
			c.Add(cell)
		}
	}
	c.Y.Tick.Marker = plot.ConstantTicks(ticks)
	return nil
}

func empty(values map[float64]float64) bool {
	for _, v := range values {
		if v > 0 {
			return false
		}
	}
	return true
}
