"""Capture engines, the lock around the profiler, and the controller that owns the profiler thread."""
