// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"image/color"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// One cell of Grafana's grid, in points of 1/72 inch, drawn at 96 dots an inch.
const (
	cellWidth  = 45
	cellHeight = 22
	margin     = 6
	header     = 34
)

var palette = []color.NRGBA{
	{0x4c, 0x78, 0xa8, 0xff},
	{0xf5, 0x85, 0x18, 0xff},
	{0x54, 0xa2, 0x4b, 0xff},
	{0xe4, 0x57, 0x56, 0xff},
	{0x72, 0xb7, 0xb2, 0xff},
	{0xb2, 0x79, 0xa2, 0xff},
	{0x9d, 0x75, 0x5d, 0xff},
	{0xee, 0xca, 0x3b, 0xff},
	{0xff, 0x9d, 0xa6, 0xff},
	{0x79, 0x70, 0x6e, 0xff},
}

func draw(src source, d *dashboard, path string) error {
	rows := 0
	for _, p := range d.Panels {
		rows = max(rows, p.GridPos.Y+p.GridPos.H)
	}
	width, height := vg.Length(24*cellWidth), vg.Length(rows*cellHeight+header)
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(96), vgimg.UseBackgroundColor(color.White))
	whole := vgdraw.New(canvas)
	label(whole, vg.Point{X: 10, Y: height - 24}, d.Title, 18, color.Black)
	for i := range d.Panels {
		p := &d.Panels[i]
		g := p.GridPos
		top := height - header - vg.Length(g.Y*cellHeight)
		area := vgdraw.Crop(whole, vg.Length(g.X*cellWidth)+margin, vg.Length((g.X+g.W)*cellWidth)-width-margin,
			top-vg.Length(g.H*cellHeight)+margin, top-height-2*margin)
		if err := p.draw(src, area); err != nil {
			return fmt.Errorf("panel %q: %w", p.Title, err)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("creating the picture: %w", err)
	}
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(f); err != nil {
		_ = f.Close()
		return fmt.Errorf("writing the picture: %w", err)
	}
	return f.Close()
}

func (p *panel) draw(src source, area vgdraw.Canvas) error {
	if p.Type == "row" {
		label(area, vg.Point{X: area.Min.X, Y: area.Min.Y}, p.Title, 11, color.Gray{0x60})
		return nil
	}
	var all []series
	for _, t := range p.Targets {
		got, err := src.query(t.Expr, t.Legend)
		if err != nil {
			return err
		}
		all = append(all, got...)
	}
	switch p.Type {
	case "stat":
		p.number(area, all)
		return nil
	case "heatmap":
		return p.chart(area, p.Options.YAxis.Unit, func(c *plot.Plot) error { return cells(c, all) })
	default:
		return p.chart(area, p.FieldConfig.Defaults.Unit, func(c *plot.Plot) error { return p.lines(c, all) })
	}
}

func style(size float64, c color.Color) text.Style {
	return text.Style{Color: c, Font: font.From(plot.DefaultFont, font.Length(size)), Handler: plot.DefaultTextHandler}
}

func label(c vgdraw.Canvas, at vg.Point, words string, size float64, col color.Color) {
	c.FillText(style(size, col), at, words)
}

// number draws the last value, large.
func (p *panel) number(area vgdraw.Canvas, all []series) {
	value := "no data"
	if len(all) > 0 && len(all[0].values) > 0 {
		value = format(all[0].values[len(all[0].values)-1], p.FieldConfig.Defaults.Unit)
	}
	label(area, vg.Point{X: area.Min.X + 4, Y: area.Max.Y - 14}, p.Title, 10, color.Gray{0x40})
	label(area, vg.Point{X: area.Min.X + 4, Y: area.Min.Y + 16}, value, 22, palette[0])
}

// chart draws axes around what content adds.
func (p *panel) chart(area vgdraw.Canvas, unit string, content func(*plot.Plot) error) error {
	c := plot.New()
	c.Title.Text = p.Title
	c.Title.TextStyle = style(10, color.Gray{0x40})
	c.Title.TextStyle.XAlign = text.XCenter
	c.X.Tick.Label = style(7, color.Gray{0x60})
	c.Y.Tick.Label = style(7, color.Gray{0x60})
	c.Y.Tick.Label.XAlign, c.Y.Tick.Label.YAlign = text.XRight, text.YCenter
	c.X.Tick.Label.XAlign, c.X.Tick.Label.YAlign = text.XCenter, text.YTop
	c.X.Tick.Marker = plot.TickerFunc(minutes)
	c.Legend.TextStyle = style(7, color.Gray{0x30})
	c.Legend.Top, c.Legend.Left = true, true
	c.Legend.ThumbnailWidth = 10
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xe8}, color.Gray{0xe8}
	c.Add(grid)
	if err := content(c); err != nil {
		return err
	}
	if unit != "" && p.Type != "heatmap" {
		c.Y.Min = 0
		if c.Y.Max <= 0 || math.IsInf(c.Y.Max, 0) {
			c.Y.Max = 1
		}
		if p.stacked() && unit == "percentunit" {
			c.Y.Max = 1.001
		} else {
			// Room for the legend.
			c.Y.Max *= 1.35
		}
		c.Y.Tick.Marker = named{unit}
	}
	c.Draw(area)
	return nil
}

// named writes a unit at every tick.
type named struct{ unit string }

// Ticks implements plot.Ticker.
func (n named) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = format(ticks[i].Value, n.unit)
		}
	}
	return ticks
}

// minutes names times by their distance from now.
func minutes(low, high float64) []plot.Tick {
	step := 60.0
	for (high-low)/step > 6 {
		step *= 2
	}
	var ticks []plot.Tick
	for at := 0.0; at >= low; at -= step {
		if at <= high {
			ticks = append(ticks, plot.Tick{Value: at, Label: fmt.Sprintf("%.0f min", at/60)})
		}
	}
	return ticks
}

// mostNamed is how many lines the legend names.
const mostNamed = 10

func (p *panel) lines(c *plot.Plot, all []series) error {
	below := map[float64]float64{}
	for i, s := range all {
		col := palette[i%len(palette)]
		line := make(plotter.XYs, 0, len(s.at))
		base := make(plotter.XYs, 0, len(s.at))
		for k, at := range s.at {
			v := s.values[k]
			if math.IsNaN(v) {
				continue
			}
			floor := 0.0
			if p.stacked() {
				floor = below[at]
				below[at] += v
				v += floor
			}
			line = append(line, plotter.XY{X: at, Y: v})
			base = append(base, plotter.XY{X: at, Y: floor})
		}
		if len(line) == 0 {
			continue
		}
		if p.stacked() {
			if err := area(c, line, base, col); err != nil {
				return err
			}
		}
		l, err := plotter.NewLine(line)
		if err != nil {
			return fmt.Errorf("line %q: %w", s.name, err)
		}
		l.Color, l.Width = col, 1
		c.Add(l)
		if i < mostNamed && s.name != "" {
			c.Legend.Add(s.name, l)
		}
	}
	return nil
}

func area(c *plot.Plot, line, base plotter.XYs, col color.NRGBA) error {
	ring := append(plotter.XYs{}, line...)
	for i := len(base) - 1; i >= 0; i-- {
		ring = append(ring, base[i])
	}
	poly, err := plotter.NewPolygon(ring)
	if err != nil {
		return fmt.Errorf("area: %w", err)
	}
	col.A = 0x60
	poly.Color, poly.LineStyle.Width = col, 0
	c.Add(poly)
	return nil
}
