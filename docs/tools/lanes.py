#!/usr/bin/env python3
# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0
"""Draw a stretch of a trace-event file of the chrometrace exporter as SVG.

    docs/tools/lanes.py run/timeline/trace.json --span ID --before 1ms --after 1ms > step.svg
    docs/tools/lanes.py run/timeline/trace.json --span ID --length 250us > launch.svg

It shows what is in the stretch: requests first, then each process with its
threads and devices, and arrows. Standard library only.
"""

import argparse
import collections
import gzip
import html
import json
import re
import sys

LABEL, WIDTH, ROW, CHAR = 216, 1180, 17, 6.4
UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
# A colour for each kind of work, readable under black text.
COLOURS = {
    "atom.request": "#dfe7f5", "engine.request": "#c3d3ef",
    "prefill_waiting": "#f3d19c", "prefill_forward": "#f7e08b", "decode_forward": "#b9dcae",
    "run": "#f2b8c6", "bind": "#f5c26b", "runner_run": "#9fd3e6", "validate": "#c9b6e4", "claim_release": "#c9b6e4",
    "device_wall": "#8fb8de", "graph_build": "#a9cde9", "orch": "#a8d5a2", "sched": "#d3b7e8", "dispatch": "#f5a58b",
}
PLAIN = "#d9d9d0"

Slice = collections.namedtuple("Slice", "start end name depth span args")


def duration(text):
    """'250us' in nanoseconds."""
    m = re.fullmatch(r"([0-9.]+)(ns|us|ms|s)", text)
    if not m:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 250us or 1.5ms")
    return round(float(m[1]) * UNITS[m[2]])


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("trace", help="file of the chrometrace exporter, .gz too")
    p.add_argument("--span", required=True, help="span id whose start and end are the stretch")
    p.add_argument("--before", type=duration, default=0, help="so much before its start, such as 1ms")
    p.add_argument("--after", type=duration, default=0, help="so much after its end")
    p.add_argument("--length", type=duration, help="not to its end, but so long from its start")
    p.add_argument("--request", default="", help="trace id, or its beginning, of the request to mark and put first")
    return p.parse_args()


def load(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as f:
        text = f.read()
    try:
        events = json.loads(text)
    except ValueError:  # its writer was killed: the closing bracket is missing
        events = json.loads(text.rstrip().rstrip(",") + "]")
    # Arrows have ts only, which counts from the file's own zero.
    base = next((int(e["args"]["trace_base_unix_ns"]) for e in events if e["name"] == "trace_base"), 0)
    for e in events:
        if "ts" in e:
            e["at"] = round(e["ts"] * 1000) + base
    return events


def begin(e):
    """The exact start where the event carries it; ts is rounded when JSON numbers become floats."""
    return int(e["args"]["start_ns"]) if "start_ns" in e.get("args", {}) else e["at"]


class Timeline:
    """Lanes by key, each with slices whose depth is known."""

    def __init__(self, events):
        self.names, self.order, self.lanes = {}, {}, collections.defaultdict(list)
        self.spans, ends = {}, collections.defaultdict(dict)
        whole, tracks = collections.defaultdict(list), collections.defaultdict(list)
        for e in events:
            key = (e["pid"], e["tid"])
            if e["ph"] == "M":
                self.label(e, key)
            elif e["ph"] == "X" and e.get("cat") != "link":
                whole[key].append(e)
            elif e["ph"] == "b":
                tracks[e["pid"], e["id2"]["local"]].append(e)
            elif e["ph"] in "sf":
                ends[e["name"], e["id"]][e["ph"]] = e
        for key, lane in whole.items():
            self.nest(key, [(begin(e), int(e["args"]["dur_ns"]), e) for e in lane])
        for key, lane in tracks.items():
            self.nest(("request", key), [(begin(e), int(e["args"]["dur_ns"]), e) for e in lane])
        self.arrows = [(n, e["s"], e["f"]) for (n, _), e in ends.items() if len(e) == 2]

    def label(self, e, key):
        if e["name"] in ("process_name", "thread_name"):
            self.names[key[0] if e["name"] == "process_name" else key] = e["args"]["name"]
        elif "sort_index" in e["args"]:
            self.order[key[0] if e["name"] == "process_sort_index" else key] = e["args"]["sort_index"]

    def nest(self, key, events):
        stack = []
        for start, dur, e in sorted(events, key=lambda x: (x[0], -x[1])):
            while stack and start >= stack[-1]:
                stack.pop()
            s = Slice(start, start + dur, e["name"], len(stack), e["args"].get("span_id"), e["args"])
            stack.append(s.end)
            self.lanes[key].append(s)
            self.spans[s.span] = (key, s)


def short(name):
    return name.rsplit(".", 1)[-1] if name.startswith(("chip.", "node.")) and name.count(".") > 1 else name


def colour(name):
    return COLOURS.get(name) or COLOURS.get(name.rsplit(".", 1)[-1], PLAIN)


def text_of(ns):
    return f"{ns / 1e6:.2f} ms" if ns >= 10**6 else f"{ns / 1e3:.1f} µs" if ns >= 1000 else f"{ns} ns"


class Picture:
    """The stretch from start to end; zero is where its axis says 0, linked the starts of the arrows to draw."""

    def __init__(self, timeline, start, end, zero, request, linked):
        self.t, self.start, self.end, self.zero = timeline, start, end, zero
        self.request, self.linked = request, linked
        self.out, self.y, self.rows = [], 34, {}

    def x(self, ns):
        return LABEL + (ns - self.start) * WIDTH / (self.end - self.start)

    def add(self, *lines):
        self.out.extend(lines)

    def text(self, x, y, what, cls=""):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}"{f" class={chr(34)}{cls}{chr(34)}" if cls else ""}>{html.escape(what)}</text>')

    def heading(self, what):
        self.add(f'<rect x="0" y="{self.y + 3}" width="{LABEL + WIDTH + 10}" height="{ROW}" fill="#e8ebf0"/>')
        self.text(6, self.y + 16, what, "h")
        self.y += ROW + 7

    def lane(self, key, label, marked=False):
        seen = [s for s in self.t.lanes[key] if s.start < self.end and s.end > self.start]
        if not seen:
            return
        if key[0] == "request" and not marked:  # a row each: what it is doing, not its whole tree
            seen = [s for s in seen if not any(o.depth > s.depth for o in seen)]
        depths = sorted({s.depth for s in seen})
        self.text(14, self.y + 12, label, "b" if marked else "")
        for s in seen:
            self.bar(s, self.y + depths.index(s.depth) * ROW, self.room(s, seen))
        self.rows[key] = (self.y, depths)
        self.y += len(depths) * ROW + 5

    def room(self, s, seen):
        """Where the next bar of the same depth begins: a label may run up to there."""
        return min([o.start for o in seen if o.depth == s.depth and o.start >= s.end and o is not s], default=self.end)

    def bar(self, s, y, free_until):
        x0, x1 = max(self.x(s.start), LABEL), min(self.x(s.end), LABEL + WIDTH)
        width = max(x1 - x0, 1.2)
        self.add(f'<rect x="{x0:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 2}" fill="{colour(s.name)}" stroke="#6b7280" stroke-width=".5">'
                 f'<title>{html.escape(s.name)} {text_of(s.end - s.start)}</title></rect>')
        name, length = short(s.name), text_of(s.end - s.start)
        for what in (f"{name}  {length}", name):
            if len(what) * CHAR + 6 < width:
                self.text(x0 + 4, y + 11.5, what)
                return
        for what in (f"{name}  {length}", name):
            if len(what) * CHAR + 6 < self.x(free_until) - x1:
                self.text(x1 + 3, y + 11.5, what, "o")
                return

    def axis(self):
        step = next(s for u in (1, 10, 100, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8, 10**9, 10**10)
                    for s in (u, 2 * u, 5 * u) if (self.end - self.start) / s <= 12)
        for k in range(-(-(self.start - self.zero) // step), (self.end - self.zero) // step + 1):
            x = self.x(self.zero + k * step)
            self.add(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="24" y2="{self.y}" stroke="#d5d9e0"/>')
            self.text(x + 2, 20, f"{k * step / 1e6:g} ms" if step >= 10**5 else f"{k * step / 1e3:g} µs", "a")

    def arrow(self, name, s, f):
        """From a dispatch, or from a request's bar, to the run's first slice."""
        to = self.rows.get((f["pid"], f["tid"]))
        target = f["at"]
        if not to or not self.start - 500 <= target <= self.end:
            return
        x1, y1 = self.x(target), to[0]
        if name == "dispatch":
            source = self.rows.get((s["pid"], s["tid"]))
            if not source:
                return
            x0, y0 = self.x(s["at"]), source[0] + 4
            cls = "arrow"
        else:
            source = self.rows.get(self.request)
            if not source:
                return
            x0, y0, cls = x1, source[0] + len(source[1]) * ROW - 2, "arrow link"
        middle = (y0 + y1) / 2
        path = f"M{x0:.1f},{y0:.1f} C{x0:.1f},{middle:.1f} {x1:.1f},{middle:.1f} {x1:.1f},{y1:.1f}"
        self.add(f'<path d="{path}" class="{cls}" marker-end="url(#tip)"/>')

    def draw(self):
        requests = sorted((k for k in self.t.lanes if k[0] == "request"),
                          key=lambda k: (k != self.request, self.t.lanes[k][0].start))
        if any(s.start < self.end and s.end > self.start for k in requests for s in self.t.lanes[k]):
            self.heading("requests, one track each")
            for k in requests:
                self.lane(k, f"trace {self.t.lanes[k][0].args['trace_id'][:8]}", k == self.request)
        for pid in sorted({k[0] for k in self.t.lanes if k[0] != "request"}, key=lambda p: self.t.order.get(p, 0)):
            self.heading(self.t.names.get(pid, f"pid {pid}"))
            for k in sorted((k for k in self.t.lanes if k[0] == pid), key=lambda k: self.t.order.get(k, 0)):
                self.lane(k, self.t.names.get(k, f"thread {k[1]}"))
        bars, self.out = self.out, []
        self.axis()
        # The same arrow from each of a batch's requests would hide the bars: only
        # the marked one's, and these below the bars.
        for name, s, f in self.t.arrows:
            if any(e is s for e in self.linked):
                self.arrow(name, s, f)
        self.out += bars
        for name, s, f in self.t.arrows:
            if name == "dispatch":
                self.arrow(name, s, f)

    def svg(self):
        style = ("text{font:11px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1f2430}"
                 ".h{font-weight:bold}.b{font-weight:bold}.o{fill:#40454f}.a{fill:#5b6270}"
                 ".arrow{fill:none;stroke:#c2410c;stroke-width:1.1}.link{stroke:#2563eb;stroke-dasharray:4 3}")
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + WIDTH + 10}" height="{self.y + 6}" viewBox="0 0 {LABEL + WIDTH + 10} {self.y + 6}">\n'
                f'<style>{style}</style>\n<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
                f'<path d="M0,0 L8,4 L0,8 z" fill="context-stroke"/></marker></defs>\n'
                f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(self.out) + "\n</svg>\n")


def main():
    a = arguments()
    events = load(a.trace)
    t = Timeline(events)
    if a.span not in t.spans:
        sys.exit(f"lanes.py: no span {a.span} in {a.trace}")
    s = t.spans[a.span][1]
    end = s.start + a.length if a.length else s.end + a.after
    request = next((k for k, l in t.lanes.items() if k[0] == "request" and a.request and l[0].args["trace_id"].startswith(a.request)), None)
    p = Picture(t, s.start - a.before, end, s.start, request, links(events, t, request))
    p.draw()
    sys.stdout.write(p.svg())


def links(events, t, request):
    """Starts of arrows that leave a phase of the request: it has a slice of category link for each."""
    if not request:
        return []
    trace = t.lanes[request][0].args["trace_id"]
    ticks = {(e["pid"], e["tid"], e["ts"]) for e in events
             if e.get("cat") == "link" and "run" in e["args"] and e["args"]["anchor_of"].startswith(trace)}
    return [e for e in events if e["ph"] == "s" and (e["pid"], e["tid"], e["ts"]) in ticks]


if __name__ == "__main__":
    main()
