"""Lets tests import the modules of the detection bench by the names by which the bench does."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
