"""Corpora of manual pages and docstrings: texts without what names the labels, and both parts."""

import gzip
import json

from click.testing import CliRunner

from benchmarks.small_sets import main, read_manual

PAGE = r""".\" a comment
.TH LS 1
.SH NAME
ls \- \fIlist\fR directory contents
.SH "SEE ALSO"
.BR dir (1),
\fBstat\fP(2), chmod\-x(1p)
.br
.Xr find 1
.SH AUTHOR
Somebody, see who(1).
"""


def test_references_are_labels_and_not_text(tmp_path):
    path = tmp_path / "ls.1.gz"
    path.write_bytes(gzip.compress(PAGE.encode()))
    assert read_manual(path) == ("ls - list directory contents", {"dir(1)", "stat(2)", "chmod-x(1p)", "find(1)"})


def test_both_sets_are_written(tmp_path):
    pages, code = tmp_path / "pages" / "man1", tmp_path / "code" / "package"
    pages.mkdir(parents=True)
    code.mkdir(parents=True)
    for i in range(8):
        text = PAGE.replace("contents", f"contents of the {i}th folder")
        (pages / f"a{i}x.1.gz").write_bytes(gzip.compress(text.encode()))
        docstring = f"Return the {i}th of all numbers that are listed."
        module = code / f"module{i}.py"
        module.write_text(f'def f():\n    """{docstring}"""\n\n\nclass C:\n    """{docstring.upper()}"""\n')
    options = ["--manuals", str(pages.parent), "--code", str(code.parent)]
    result = CliRunner().invoke(main, [str(tmp_path / "out"), *options], catch_exceptions=False)
    assert "manuals: 6 documents to train on, 2 to test, 4 labels" in result.stdout
    assert "docstrings: 12 documents to train on, 4 to test, 9 labels" in result.stdout
    lines = (tmp_path / "out" / "docstrings" / "test.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    assert first["text"].startswith("Return the")
    assert first["labels"][0] == "package"
    assert first["id"].startswith(first["labels"][1])
