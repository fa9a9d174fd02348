"""From facts to findings: pure rules, one a file."""
