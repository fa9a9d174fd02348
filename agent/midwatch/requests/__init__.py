"""Requests and units: marking, ledger, latency sketch, workload."""
