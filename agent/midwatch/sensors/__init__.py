"""Sensors, one a file."""
