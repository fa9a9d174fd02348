"""The `midwatch` command and a Python client for a collector: ``from midwatch_client.api import Client``."""
