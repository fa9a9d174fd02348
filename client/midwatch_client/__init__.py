"""The midwatch command and the Python client."""
