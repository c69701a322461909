// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Command picture draws the dashboards' queries as PNG files, without Grafana:
// for the documentation, and to look at a change before it is imported.
//
//	go run ./picture --prometheus http://127.0.0.1:9090 --dashboards ../dashboards --out ../../../docs/img
package main // import "github.com/phasecol/phasecol/deploy/grafana/gen/picture"

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// panel is what a dashboard's JSON says of one.
type panel struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	} `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit   string `json:"unit"`
			Custom struct {
				Stacking struct {
					Mode string `json:"mode"`
				} `json:"stacking"`
			} `json:"custom"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Options struct {
		YAxis struct {
			Unit string `json:"unit"`
		} `json:"yAxis"`
	} `json:"options"`
	Targets []struct {
		Expr   string `json:"expr"`
		Legend string `json:"legendFormat"`
	} `json:"targets"`
}

func (p *panel) stacked() bool { return p.FieldConfig.Defaults.Custom.Stacking.Mode == "normal" }

type dashboard struct {
	Title  string  `json:"title"`
	Panels []panel `json:"panels"`
}

func main() {
	var (
		server = flag.String("prometheus", "http://127.0.0.1:9090", "address of the Prometheus to ask")
		boards = flag.String("dashboards", "../dashboards", "folder of the dashboards' JSON")
		out    = flag.String("out", ".", "folder for the pictures")
		length = flag.Duration("range", 10*time.Minute, "how far back to look")
		window = flag.Duration("window", time.Minute, "value of $__rate_interval")
	)
	flag.Parse()
	src := source{server: *server, end: time.Now(), length: *length, window: *window}
	if err := run(src, *boards, *out); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(src source, boards, out string) error {
	files, err := filepath.Glob(filepath.Join(boards, "*.json"))
	if err != nil {
		return fmt.Errorf("looking for dashboards: %w", err)
	}
	if len(files) == 0 {
		return errors.New("no dashboards in " + boards)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading a dashboard: %w", err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			return fmt.Errorf("decoding %s: %w", path, err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".json") + ".png"
		if err := draw(src, &d, filepath.Join(out, name)); err != nil {
			return fmt.Errorf("drawing %s: %w", path, err)
		}
	}
	return nil
}
