"""Frameworks whose requests Midwatch marks by itself."""
