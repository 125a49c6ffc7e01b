"""Builds xmlgp; everything declarative is in setup.cfg.

Two things setup.cfg cannot say. The catalogue lives at the top level, where researchers edit it, and every built
package carries a copy beside the code that reads it. And a package carries machine code of its compiled loops, which
the first run would otherwise compile.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent

#: What calls the loops of the default model, for texts and for rows of numbers.
COMMANDS = """
fetch -q tickets
train -q data/tickets model
predict -q model - --format table
predict -q model data/tickets/test.csv --assign -o answers.jsonl
fetch -q toy
preprocess -q data/toy numbers
"""

#: Runs lines of commands in one process, which loads the compiler once.
RUN_ALL = "import sys; from xmlgp.cli import main; [main(line.split(), standalone_mode=False) for line in sys.argv[1:]]"

#: Some 20 times what compiling takes.
MOST_SECONDS = 300


class BuildWithCode(build_py):
    """Copy datasets.yaml into the built package, and compile its loops.

    A wheel keeps its tag for any machine: where Python, Numba or the processor is another one, Numba compiles as if it
    held no machine code.
    """

    def run(self):
        super().run()
        if self.editable_mode:
            # Numba does not see that a loop of another file has changed.
            for code in (ROOT / "xmlgp").rglob("*.nb[ic]"):
                code.unlink(missing_ok=True)
            compile_loops(ROOT)
            return
        package = Path(self.build_lib, "xmlgp")
        shutil.copyfile(ROOT / "datasets.yaml", package / "data/datasets.yaml")
        # Those of an earlier build.
        for folder in package.rglob("__pycache__"):
            shutil.rmtree(folder)
        compile_loops(package.parent, PYTHONDONTWRITEBYTECODE="1")


class SourceWithCatalogue(sdist):
    """Keep datasets.yaml, from which packages are built, among the sources."""

    def add_defaults(self):
        super().add_defaults()
        self.filelist.append("datasets.yaml")


def compile_loops(folder, seconds=MOST_SECONDS, **variables):
    """Compile the loops of the package in a folder by running it; print a line if that fails.

    The machine code stays in the package's folders `__pycache__`.
    """
    path = os.pathsep.join(filter(None, [str(Path(folder).resolve()), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory(prefix="xmlgp-build-") as work:
        # In a folder of the user, the package would not have the machine code.
        variables |= {"PYTHONPATH": path, "NUMBA_CACHE_DIR": "", "NUMBA_DISABLE_JIT": "0", "XMLGP_CATALOGUE": ""}
        command = [sys.executable, "-c", RUN_ALL, *COMMANDS.strip().splitlines()]
        options = {"cwd": work, "env": os.environ | variables, "input": b"My screen is dark.", "timeout": seconds}
        try:
            subprocess.run(command, check=True, capture_output=True, **options)
        except (OSError, subprocess.SubprocessError) as error:
            lines = (getattr(error, "stderr", None) or b"").decode(errors="replace").splitlines()
            reason = lines[-1] if lines else error
            print(
                f"warning: the loops are not compiled, which the first run of xmlgp will do: {reason}", file=sys.stderr
            )


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildWithCode, "sdist": SourceWithCatalogue})
