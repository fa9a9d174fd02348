"""The messages and services of ``midwatch.v1``."""
