"""The demo: a real ranking service with planted faults, a load, and a check of what Midwatch said about it."""
