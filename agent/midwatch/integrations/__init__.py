"""Frameworks whose requests are marked without a change of code; one a file."""
