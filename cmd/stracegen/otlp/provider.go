// Copyright The phasecol Authors
// SPDX-License-Identifier: Apache-2.0

// Package otlp turns simulated requests into the spans ATOM sends: HTTP spans
// from the API process, engine spans from the engine process, each with a
// provider of its own.
package otlp // import "github.com/phasecol/phasecol/cmd/stracegen/otlp"

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/phasecol/phasecol/cmd/stracegen/truth"
)

// What ATOM's tracing sets on its batch span processor.
const (
	queueSize     = 8192
	batchSize     = 512
	scheduleDelay = time.Second
	// DefaultTimeout is its exporter's timeout.
	DefaultTimeout = time.Second
)

// scopeName is the instrumentation scope of the spans.
const scopeName = "atom.trace"

// Options say where spans go and what their resources hold.
type Options struct {
	// Endpoint is an OTLP/HTTP base URL such as http://127.0.0.1:4318, or with a
	// path of its own; empty sends nothing.
	Endpoint string
	// Timeout bounds one export with its retries; 0 is ATOM's second.
	Timeout time.Duration
	// Offline, when set, gets the same spans.
	Offline *Collector
	// ServiceName and ServiceVersion, HostName and Pod describe both processes.
	ServiceName    string
	ServiceVersion string
	HostName       string
	Pod            *truth.Pod
	// Model is the served model's name.
	Model string
}

// source is one process that emits spans.
type source struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	counter  *countingExporter
	pending  int
}

func newSource(ctx context.Context, opts *Options, pid int32, role string) (*source, error) {
	s := &source{}
	popts := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(newResource(opts, pid, role)),
		sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithIDGenerator(idGenerator{}),
	}
	if opts.Endpoint != "" {
		timeout := opts.Timeout
		if timeout <= 0 {
			timeout = DefaultTimeout
		}
		endpoint, err := tracesURL(opts.Endpoint)
		if err != nil {
			return nil, err
		}
		client, err := otlptracehttp.New(ctx,
			otlptracehttp.WithEndpointURL(endpoint),
			otlptracehttp.WithTimeout(timeout),
			otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
				Enabled: true, InitialInterval: timeout / 20, MaxInterval: timeout / 4, MaxElapsedTime: timeout,
			}))
		if err != nil {
			return nil, fmt.Errorf("making the OTLP exporter for %s: %w", endpoint, err)
		}
		s.counter = &countingExporter{SpanExporter: client}
		popts = append(popts, sdktrace.WithSpanProcessor(sdktrace.NewBatchSpanProcessor(s.counter,
			sdktrace.WithMaxQueueSize(queueSize),
			sdktrace.WithMaxExportBatchSize(batchSize),
			sdktrace.WithBatchTimeout(scheduleDelay),
			sdktrace.WithExportTimeout(timeout))))
	}
	if opts.Offline != nil {
		popts = append(popts, sdktrace.WithSpanProcessor(opts.Offline.processor()))
	}
	s.provider = sdktrace.NewTracerProvider(popts...)
	s.tracer = s.provider.Tracer(scopeName, trace.WithInstrumentationVersion(opts.ServiceVersion))
	return s, nil
}

func newResource(opts *Options, pid int32, role string) *resource.Resource {
	attrs := []attribute.KeyValue{
		attribute.String("service.name", opts.ServiceName),
		attribute.String("service.version", opts.ServiceVersion),
		attribute.Int64("process.pid", int64(pid)),
		attribute.String("atom.process.role", role),
		attribute.String("telemetry.sdk.name", "opentelemetry"),
		attribute.String("telemetry.sdk.language", "go"),
	}
	if opts.HostName != "" {
		attrs = append(attrs, attribute.String("host.name", opts.HostName))
	}
	if p := opts.Pod; p != nil {
		attrs = append(attrs,
			attribute.String("k8s.namespace.name", p.Namespace), attribute.String("k8s.pod.name", p.Name),
			attribute.String("k8s.pod.uid", p.UID), attribute.String("k8s.container.name", p.Container))
	}
	return resource.NewSchemaless(attrs...)
}

// ended notes a span. So many spans at once would overflow the queue, which
// drops them silently as ATOM's may; a generator has time to wait instead.
func (s *source) ended(ctx context.Context) error {
	if s.counter == nil {
		return nil
	}
	s.counter.ended.Add(1)
	s.pending++
	if s.pending < queueSize/2 {
		return nil
	}
	s.pending = 0
	if err := s.provider.ForceFlush(ctx); err != nil {
		return fmt.Errorf("sending spans: %w", err)
	}
	return nil
}
