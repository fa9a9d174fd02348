"""The service dies of a fault of its own in the middle of a real window."""

import ctypes

from common import ProfilerThread


def main():
    profiler = ProfilerThread("direct")
    profiler.order(20.0)
    profiler.await_phase("RECORDING")
    ctypes.string_at(0)


main()
