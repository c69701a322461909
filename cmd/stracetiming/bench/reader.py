#!/usr/bin/env python3
# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0
"""The baseline of the benchmark: a small marker reader as one would write it in Python.

It reads line by line with one regular expression, groups records by (pid, inv), and prints the same table as stracetiming:
root mean, minimum and maximum, then the mean of every stage, by callable. With --trace-out or --swimlane it also writes a
Chrome trace. It knows one generation of the log and none of the traps.
"""

import argparse
import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass

RECORD = re.compile(
    r"\[STRACE\] v=1 pid=(?P<pid>\d+) tid=(?P<tid>\d+) inv=(?P<inv>\d+) hid=(?P<hid>[0-9a-f]+) depth=(?P<depth>\d+)"
    r" name=(?P<name>\S+) ts=(?P<ts>\d+) dur=(?P<dur>\d+)(?P<attrs>[^\[\r\n]*)"
)
ESCAPE = re.compile(r"%([0-9A-F]{2})")
ANCHOR = re.compile(r"\[CLOCK_ANCHOR\] v=1 pid=(\d+) mono_ns=(\d+) wall_ns=(\d+)")


@dataclass(slots=True)
class Span:
    pid: int
    tid: int
    inv: int
    hid: str
    depth: int
    name: str
    ts: int
    dur: int
    attrs: str


def decode(name):
    return ESCAPE.sub(lambda m: chr(int(m[1], 16)), name) if "%" in name else name


def read(path):
    spans, anchors, heads = [], {}, 0
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            if "[STRACE]" in line:
                heads += line.count("[STRACE] v=")
                for m in RECORD.finditer(line):
                    spans.append(
                        Span(
                            int(m["pid"]), int(m["tid"]), int(m["inv"]), m["hid"], int(m["depth"]),
                            decode(m["name"]), int(m["ts"]), int(m["dur"]), m["attrs"].strip(),
                        )
                    )
            elif (m := ANCHOR.search(line)) is not None:
                anchors[int(m[1])] = (int(m[2]), int(m[3]))
    if heads > len(spans):
        print(f"warning: {heads - len(spans)} of {heads} records are left out", file=sys.stderr)
    return spans, anchors


def group(spans):
    invocations = defaultdict(list)
    for s in spans:
        if s.name.startswith("chip."):
            invocations[s.pid, s.inv].append(s)
    callables = defaultdict(list)
    for inv in invocations.values():
        callables[inv[0].hid].append(inv)
    return invocations, callables


def table(callables):
    for hid, invs in sorted(callables.items(), key=lambda kv: -len(kv[1])):
        print(f"callable hid={hid} — {len(invs)} invocation(s)")
        stages = defaultdict(list)
        roots = defaultdict(list)
        for inv in invs:
            earliest = {}  # of records with one name, as the runtime's own tool counts
            for s in inv:
                if s.name not in earliest or s.ts < earliest[s.name].ts:
                    earliest[s.name] = s
            for s in earliest.values():
                (stages if s.depth else roots)[s.name].append(s.dur)
        for name, d in roots.items():
            print(f"  {name}: mean={int(sum(d) / len(d)) / 1000:.1f}us min={min(d) / 1000:.1f}us max={max(d) / 1000:.1f}us")
        for name in sorted(stages, key=lambda n: (-len(stages[n]), n)):
            d = stages[name]
            print(f"  {'  ' * name.count('.')}{name}: mean={int(sum(d) / len(d)) / 1000:.1f}us (n={len(d)})")
        print()


def event(s, pid, tid, anchors):
    args = {"inv": s.inv, "hid": s.hid, "depth": s.depth, "attrs": s.attrs}
    if (a := anchors.get(s.pid)) is not None and "clk=dev" not in s.attrs:
        args["wall_ts_ns"] = str(a[1] + s.ts - a[0])
    return {"name": s.name, "ph": "X", "ts": s.ts / 1000, "dur": s.dur / 1000, "pid": pid, "tid": tid, "args": args}


def trace_out(path, invocations, anchors):
    events = []
    for lane, ((pid, inv), spans) in enumerate(invocations.items(), start=1):
        events.append({"ph": "M", "name": "process_name", "pid": lane, "tid": 0, "args": {"name": f"inv={inv} (pid={pid})"}})
        events += [event(s, lane, int("clk=dev" in s.attrs), anchors) for s in spans]
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"traceEvents": events}, f)


def swimlane(path, spans, anchors):
    host = sorted((s for s in spans if "clk=dev" not in s.attrs), key=lambda s: s.ts)
    events = []
    for s in host:
        e = event(s, s.pid, s.tid, anchors)
        e["args"].update(kv.split("=", 1) for kv in s.attrs.split() if "=" in kv)
        events.append(e)
    unaligned = [
        {"name": s.name, "ts_ns": s.ts, "dur_ns": s.dur, "pid": s.pid, "tid": s.tid, "inv": s.inv, "hid": s.hid, "depth": s.depth}
        for s in spans
        if "clk=dev" in s.attrs
    ]
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"traceEvents": events, "unalignedDeviceSpans": unaligned}, f)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("log")
    ap.add_argument("--trace-out")
    ap.add_argument("--swimlane")
    args = ap.parse_args()
    spans, anchors = read(args.log)
    invocations, callables = group(spans)
    table(callables)
    if args.trace_out:
        trace_out(args.trace_out, invocations, anchors)
    if args.swimlane:
        swimlane(args.swimlane, spans, anchors)


if __name__ == "__main__":
    main()
