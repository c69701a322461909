# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0
"""Sends the spans of the request trace contract as a serving engine does.

client.py api    one HTTP span per request, with the caller's trace context;
                 prints the context that it hands to the engine
client.py engine reads that and sends the engine's spans

Both read the requests as JSON from standard input. Each process has a provider
and an exporter of its own, with the batch settings that the contract names.
"""

import json
import os
import sys

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

PROPAGATOR = TraceContextTextMapPropagator()


def provider(job):
    resource = Resource.create(
        {"service.name": "atom", "service.version": "interop", "host.name": job["host"], "process.pid": os.getpid()}
    )
    tracing = TracerProvider(sampler=ALWAYS_ON, resource=resource)
    tracing.add_span_processor(
        BatchSpanProcessor(
            OTLPSpanExporter(endpoint=job["endpoint"], timeout=1),
            max_queue_size=8192,
            max_export_batch_size=512,
            schedule_delay_millis=1000,
            export_timeout_millis=1000,
        )
    )
    return tracing


def api(job):
    tracing = provider(job)
    tracer = tracing.get_tracer("atom")
    carriers = []
    for request in job["requests"]:
        context = PROPAGATOR.extract(request.get("headers", {}))
        span = tracer.start_span("atom.request", context=context, kind=SpanKind.SERVER, start_time=request["start"])
        span.set_attribute("gen_ai.request.id", request["id"])
        span.set_attribute("http.response.status_code", request["status"])
        if request.get("unsupported"):
            span.set_attribute("atom.trace.unsupported", request["unsupported"])
        if request["status"] >= 500:
            span.set_attribute("error.type", str(request["status"]))
            span.set_status(Status(StatusCode.ERROR))
        carrier = {}
        PROPAGATOR.inject(carrier, set_span_in_context(span))
        carriers.append(carrier)
        span.end(end_time=request["end"])
    tracing.shutdown()
    json.dump(carriers, sys.stdout)


def engine(job):
    tracing = provider(job)
    tracer = tracing.get_tracer("atom")
    for request in job["requests"]:
        context = PROPAGATOR.extract(request["carrier"])
        for sequence in request.get("sequences", []):
            root = tracer.start_span("engine.request", context=context, start_time=sequence["start"])
            ids = {"gen_ai.request.id": request["id"], "atom.sequence.id": sequence["id"], "gen_ai.response.model": "demo"}
            root.set_attributes(ids)
            root.set_attributes(sequence["attributes"])
            if sequence.get("error"):
                root.set_attribute("error.type", sequence["error"])
                root.set_status(Status(StatusCode.ERROR))
            for phase in sequence["phases"]:
                span = tracer.start_span(phase["name"], context=set_span_in_context(root), start_time=phase["start"])
                span.set_attributes(ids)
                if phase.get("error"):
                    span.set_attribute("error.type", phase["error"])
                    span.set_status(Status(StatusCode.ERROR))
                span.end(end_time=phase["end"])
            root.end(end_time=sequence["end"])
    tracing.shutdown()


if __name__ == "__main__":
    print("ready", file=sys.stderr, flush=True)
    {"api": api, "engine": engine}[sys.argv[1]](json.load(sys.stdin))
