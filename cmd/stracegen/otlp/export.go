// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// tracesURL adds the standard path to a base URL that has none.
func tracesURL(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", fmt.Errorf("OTLP endpoint: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", fmt.Errorf("OTLP endpoint %q: must be a URL such as http://127.0.0.1:4318", endpoint)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// countingExporter knows how many spans arrived, which the batch processor in
// front of it tells nobody.
type countingExporter struct {
	sdktrace.SpanExporter
	ended, sent atomic.Int64

	mu sync.Mutex
	// first is the first failure; mu guards it.
	first error
}

func (e *countingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		e.mu.Lock()
		if e.first == nil {
			e.first = err
		}
		e.mu.Unlock()
		return err
	}
	e.sent.Add(int64(len(spans)))
	return nil
}

// lost returns how many spans did not arrive, and why.
func (e *countingExporter) lost() (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended.Load() - e.sent.Load(), e.first
}
