"""Benchmarks import each other by their plain names, as scripts of one folder do."""

import sys
from pathlib import Path

# At the end, so that no benchmark's name hides a module of someone else.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
