"""Incidents: fingerprints and grouping."""
