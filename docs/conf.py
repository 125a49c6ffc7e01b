"""Sphinx configuration of the documentation site; `make docs` builds it."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

import xmlgp

project = "xmlgp"
author = "The xmlgp developers"
copyright = author
version = release = xmlgp.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "reference"]
myst_heading_anchors = 4
nitpicky = False
default_role = "code"
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"xmlgp {release}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["custom.css"]


def escape_bars(app, what, name, obj, options, lines):
    """Escape the bars of |x| in docstrings outside code, which reStructuredText takes for a substitution."""
    lines[:] = [re.sub(r"(`+[^`]*`+)|\|", lambda match: match[1] or r"\|", line) for line in lines]


def setup(app):
    """Prepare docstrings."""
    app.connect("autodoc-process-docstring", escape_bars)
