"""A service in small: starts a link, sends samples, prints what a test must know, and waits to be killed.

``python service.py COLLECTOR FOLDER SAMPLES [fork]``; with ``fork`` a child keeps the socket open while it lives.
"""

import json
import os
import sys
import time

from midwatch.clock import SystemClock
from midwatch.config import Settings
from midwatch.link import Link
from midwatch.model.plain import to_plain
from midwatch.model.resource import Resource
from midwatch.model.samples import HostSample

collector, folder, samples, *how = sys.argv[1:]
link = Link(
    Settings(collector=collector, state_dir=f"{folder}/state", trace_dir=folder),
    Resource("service", "reco", pid=os.getpid()),
    SystemClock(),
)
link.start()
child = 0
if how == ["fork"]:
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
for number in range(int(samples)):
    assert link.send({"t": "stats", "host": [to_plain(HostSample(unix_ns=number, interval_ns=1))]})
print(json.dumps({"companion": link._child.pid, "child": child, "trace_dir": link.trace_dir}), flush=True)
time.sleep(60)
