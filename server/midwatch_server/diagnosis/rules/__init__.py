"""The rules, one kind a file."""
