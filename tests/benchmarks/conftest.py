"""Let benchmarks import each other by their plain names, as scripts in one folder do."""

import sys
from pathlib import Path

# At the end of the path, so that the names of benchmarks do not hide other modules.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
