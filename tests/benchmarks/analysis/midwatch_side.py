"""One run of Midwatch: load a trace and find all its facts, replays among them. Prints seconds."""

import json
import sys
import time

began = time.perf_counter()
from midwatch.trace import summarise  # noqa: E402 - its import is timed apart

imported = time.perf_counter()
summary = summarise(sys.argv[1])
took = {"import_s": imported - began, "work_s": time.perf_counter() - imported}
print(json.dumps({**took, "events": summary.events, "caveats": [c.code for c in summary.window.caveats]}))
