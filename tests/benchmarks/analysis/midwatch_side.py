"""One run of Midwatch: load a trace and find all its facts, replays among them. Prints seconds.

midwatch_side.py TRACE BYTES
"""

import json
import sys
import time

began = time.perf_counter()
from midwatch.trace import summarise  # noqa: E402 - its import is timed apart

imported, cpu = time.perf_counter(), time.process_time()
summary = summarise(sys.argv[1], memory_bytes=int(sys.argv[2]))
took = {"work_s": time.perf_counter() - imported, "cpu_s": time.process_time() - cpu, "import_s": imported - began}
print(json.dumps({**took, "events": summary.events, "caveats": [c.code for c in summary.window.caveats]}))
