# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0
#
# One line per span, attributes as plain values, out of OTLP JSON:
#
#   jq -cf docs/tools/spans.jq run/traces*.jsonl > run/spans.jsonl
#
# Times stay text: as numbers, jq would round nanoseconds since 1970.
def plain:
  if has("stringValue") then .stringValue
  elif has("intValue") then (.intValue | tonumber? // .)
  elif has("doubleValue") then .doubleValue
  elif has("boolValue") then .boolValue
  elif has("arrayValue") then [.arrayValue.values[]? | plain]
  else null end;
def attributes: [.attributes[]? | {key, value: (.value | plain)}] | from_entries;

.resourceSpans[] | (.resource | attributes) as $resource
| .scopeSpans[].spans[]
| {
    trace: .traceId, span: .spanId, parent: .parentSpanId, name, start: .startTimeUnixNano, end: .endTimeUnixNano,
    # Exact: the seconds cancel before a number is made of the rest.
    ms: (((.endTimeUnixNano[:-9] | tonumber) - (.startTimeUnixNano[:-9] | tonumber)) * 1000
         + ((.endTimeUnixNano[-9:] | tonumber) - (.startTimeUnixNano[-9:] | tonumber)) / 1e6),
    resource: $resource, attr: attributes,
    links: [.links[]? | {trace: .traceId, span: .spanId}]
  }
