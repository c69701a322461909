// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package stracelogconnector

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer/consumertest"
)

// stages are what one invocation prints before its root.
var stages = [...]string{"bind.args", "bind.prebuilt", "bind", "stage_inputs", "prepare_execution", "runner_run", "validate", "claim_release"}

// BenchmarkConsumeLogs takes batches of 100 records, as log collectors make
// them: all of them markers, or one in a hundred.
func BenchmarkConsumeLogs(b *testing.B) {
	for _, c := range []struct {
		name   string
		sparse bool
	}{{"dense", false}, {"sparse", true}} {
		b.Run(c.name, func(b *testing.B) {
			cfg := createDefaultConfig().(*Config)
			conn, err := newStracelogConnector(connectortest.NewNopSettings(NewFactory().Type()), cfg, consumertest.NewNop())
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, conn.Shutdown(context.WithoutCancel(b.Context()))) })
			now := time.Unix(0, wall)
			conn.now = func() time.Time { return now }
			inv := 0
			var lines []string
			next := func() string {
				if len(lines) == 0 {
					inv++
					at := int64(inv) * 1_000_000
					for i, stage := range stages {
						lines = append(lines, span(inv, 1, "chip.run."+stage, at+int64(i)*1000, 900))
					}
					lines = append(lines, span(inv, 0, "chip.run", at-10, 900_000))
				}
				line := lines[0]
				lines = lines[1:]
				return line
			}
			records := 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				in := newBatch(map[string]any{"host.name": "h", "k8s.pod.uid": "u"})
				for i := range 100 {
					if c.sparse && i > 0 {
						in.add(wall, fmt.Sprintf("INFO scheduler: step %d: batch of 16 sequences, 12 decoding and 4 waiting; cache blocks used 1234 of 65536", i))
						continue
					}
					in.add(wall, next())
				}
				b.StartTimer()
				if err := conn.ConsumeLogs(b.Context(), in.logs); err != nil {
					b.Fatal(err)
				}
				records += 100
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(records), "ns/record")
		})
	}
}
