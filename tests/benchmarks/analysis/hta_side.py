"""One run of HolisticTraceAnalysis: load a trace, then its idle, kernel, launch and queue analyses. Prints seconds."""

import json
import sys
import time

began = time.perf_counter()
from hta.trace_analysis import TraceAnalysis  # noqa: E402 - its import is timed apart

imported, cpu = time.perf_counter(), time.process_time()
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
analysis.get_idle_time_breakdown(visualize=False)
analysis.get_gpu_kernel_breakdown(visualize=False)
analysis.get_cuda_kernel_launch_stats(visualize=False)
analysis.get_queue_length_summary()
print(
    json.dumps(
        {"import_s": imported - began, "work_s": time.perf_counter() - imported, "cpu_s": time.process_time() - cpu}
    )
)
