"""The frozen values that pass through Midwatch, from a request to an incident."""
