"""A small ranking service, written as a team would write it, with faults planted where a comment says FAULT."""
