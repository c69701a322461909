// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package report turns traces into the tables of the command line, for people
// and for scripts.
package report // import "github.com/phasecol/phasecol/cmd/stracetiming/internal/report"

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// Format is how a report is written.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	CSV   Format = "csv"
)

// Options say how to write a report.
type Options struct {
	Format Format
	// Top bounds what is listed, 0 for no bound.
	Top int
	// Percentiles are added to the tables, each over 0 and under 100.
	Percentiles []float64
	// Color is true for a terminal that shows it.
	Color bool
	// Warnings go into what scripts get.
	Warnings []string
}

// noMarkers is what the runtime's own tool says of an empty log.
const noMarkers = "No [STRACE] markers found."

// printer writes text. Its errors stay in the buffer until Flush.
type printer struct {
	*bufio.Writer
	color bool
}

func newPrinter(w io.Writer, opt Options) *printer {
	return &printer{Writer: bufio.NewWriter(w), color: opt.Color}
}

func (p *printer) printf(format string, args ...any) { _, _ = fmt.Fprintf(p.Writer, format, args...) }

// The styles. Text stays as it is where there are no colours.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
)

func (p *printer) style(code, text string) string {
	if !p.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p *printer) flush() error {
	if err := p.Flush(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// us prints nanoseconds as microseconds with one decimal, as the runtime's own
// tool does.
func us(ns float64) string { return strconv.FormatFloat(ns/1000, 'f', 1, 64) }

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func writeCSV(w io.Writer, header []string, rows [][]string) error {
	c := csv.NewWriter(w)
	_ = c.Write(header) // Error tells below
	_ = c.WriteAll(rows)
	if err := c.Error(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func itoa(v int64) string { return strconv.FormatInt(v, 10) }

func ftoa(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// top cuts a list to opt.Top.
func top[T any](list []T, n int) []T {
	if n > 0 && n < len(list) {
		return list[:n]
	}
	return list
}
