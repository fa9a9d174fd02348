"""Deadlines and spikes, as pure functions over the latency sketch."""
