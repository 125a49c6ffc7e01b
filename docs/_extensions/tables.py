"""Keep numbers such as 65.62 / 41.60 / 30.80 or 6.5 h in one line of a table: narrow screens scroll tables sideways."""

import re

from docutils import nodes

#: Blanks around / and ±, and before a unit.
BLANK = re.compile(r" (?=[/±] )|(?<= [/±]) |(?<=\d) (?=(?:h|s|ms|GB)\b)")


def join_numbers(app, doctree):
    """Replace such blanks in cells of tables by blanks that do not break."""
    for entry in doctree.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            text.parent.replace(text, nodes.Text(BLANK.sub("\N{NO-BREAK SPACE}", text)))


def setup(app):
    """Change the tables of every page that is read."""
    app.connect("doctree-read", join_numbers)
    return {"parallel_read_safe": True}
