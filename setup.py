"""Builds xmlgp; everything declarative is in setup.cfg.

The one thing setup.cfg cannot say: the catalogue lives at the top level, where researchers edit it, and
every built package carries a copy beside the code that reads it.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithCatalogue(build_py):
    """Copy datasets.yaml into the built package."""

    def run(self):
        super().run()
        if not self.editable_mode:
            shutil.copyfile(Path(__file__).parent / "datasets.yaml", Path(self.build_lib) / "xmlgp/data/datasets.yaml")


setup(cmdclass={"build_py": BuildWithCatalogue})
