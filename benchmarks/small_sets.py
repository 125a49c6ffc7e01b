"""Small data sets of text from what a machine has: manual pages and docstrings.

    python -m benchmarks small_sets FOLDER [--manuals FOLDER] [--code FOLDER] [--seed 0]

Writes train.jsonl and test.jsonl, corpora with texts and the names of their labels:

    FOLDER/manuals     manual pages, with the pages that they refer to under SEE ALSO as labels
    FOLDER/docstrings  docstrings of functions and classes of a folder of Python code, with the packages and modules
                       around them as labels

--manuals is a folder with man1, man2 and so on, --code a folder of Python code; both are those of this machine by
default, so two machines have different sets. The seed chooses three quarters of the documents for training. Labels of
fewer than two documents are dropped, then documents without labels. `python -m benchmarks text
FOLDER/manuals --peer svm` holds xmlgp beside LinearSVC on them.
"""

import ast
import gzip
import json
import random
import re
import sysconfig
import warnings
from collections import Counter
from pathlib import Path

import click

TRAINING_SHARE = 0.75

#: Documents that must have a label.
LABEL_DOCUMENTS = 2

#: Most pages whose names begin alike, up to the first `-`, `_`, `.` or `:`. Some tools have thousands of one form.
ALIKE = 50

#: Characters of the shortest document.
LEAST_TEXT = 40

#: Most docstrings.
DOCSTRINGS = 15_000

#: Escapes and the marks of fonts in roff.
ESCAPE = re.compile(r"\\f(?:\[.*?\]|\(..|.)|\\s[-+]?\d|\\\*?\(..|\\\*?\[.*?\]|\\[&|^/,c]")

#: A manual page, such as ls(1) or `.Xr ls 1`.
PAGE = re.compile(r"([A-Za-z0-9_.:+\[@-]+)\s*\(([0-9][a-z0-9]*)\)|^\.Xr (\S+) (\d\w*)", re.MULTILINE)


def plain_text(source):
    """Return the text of roff, without requests and marks of fonts."""
    lines = (
        re.sub(r"^[.'][A-Za-z]{1,2}\b ?", "", line)
        for line in source.splitlines()
        if not line.startswith((".\\", "'\\"))
    )
    return " ".join(" ".join(lines).replace("\\-", "-").replace("\\", " ").split())


def read_manual(path):
    """Return the text of a manual page before its references, and the pages that these name."""
    source = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    source = ESCAPE.sub("", source.replace("\\-", "-"))
    sections = re.split(r"(?im)^\.SH\s+\"?([^\"\n]*?)\"?\s*$", source)
    titles, bodies = sections[1::2], sections[2::2]
    seen, labels = [], set()
    for title, body in zip(titles, bodies, strict=True):
        if title.strip().upper() == "SEE ALSO":
            body = re.sub(r"(?m)^\.(?:BR|IR|RB|B|I)\s+(\S+)\s+", r"\1 ", body)
            labels |= {f"{a or c}({b or d})" for a, b, c, d in PAGE.findall(body)}
        elif title.strip().upper() not in ("AUTHOR", "AUTHORS", "COPYRIGHT", "REPORTING BUGS", "COLOPHON"):
            seen.append(body)
    return plain_text("\n".join(seen)), labels


def manuals(folder):
    """Yield a name, a text and labels for each manual page that refers to others."""
    alike = Counter()
    for path in sorted(folder.glob("man[1-9]/*.gz")):
        kind = re.split(r"[-_:.]", path.name)[0]
        if path.is_symlink() or alike[kind] >= ALIKE:
            continue
        text, labels = read_manual(path)
        name = re.sub(r"\.([0-9][^.]*)\.gz$", r"(\1)", path.name)
        alike[kind] += 1
        yield name, text, labels - {name}


def docstrings(folder):
    """Yield a name, a text and labels for each function and class with a docstring."""
    for path in sorted(folder.rglob("*.py")):
        module = path.relative_to(folder).with_suffix("").parts
        if any(part in ("test", "tests", "site-packages", "dist-packages") for part in module):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        labels = {".".join(module[: i + 1]) for i in range(len(module))}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
                yield f"{'.'.join(module)}.{node.name}", " ".join(text.split()), labels


def write_set(folder, documents, seed):
    """Write train.jsonl and test.jsonl, without rare labels and repeated texts; print their sizes."""
    documents = list(
        {text: (name, text, labels) for name, text, labels in documents if len(text) >= LEAST_TEXT}.values()
    )
    counts = Counter(label for _, _, labels in documents for label in labels)
    rows = [
        {"id": name, "text": text, "labels": sorted(label for label in labels if counts[label] >= LABEL_DOCUMENTS)}
        for name, text, labels in documents
    ]
    rows = [row for row in rows if row["labels"]]
    random.Random(seed).shuffle(rows)
    cut = round(TRAINING_SHARE * len(rows))
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in ("train", rows[:cut]), ("test", rows[cut:]):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in part)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8", errors="replace")
    used = {label for row in rows for label in row["labels"]}
    print(f"{folder}: {cut:,} documents to train on, {len(rows) - cut:,} to test, {len(used):,} labels")


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--manuals", "manual_folder", default="/usr/share/man", type=click.Path(path_type=Path))
@click.option("--code", default=sysconfig.get_path("stdlib"), type=click.Path(path_type=Path))
@click.option("--seed", default=0)
def main(folder, manual_folder, code, seed):
    write_set(folder / "manuals", manuals(manual_folder), seed)
    found = list(docstrings(code))
    random.Random(seed).shuffle(found)
    write_set(folder / "docstrings", found[:DOCSTRINGS], seed)


if __name__ == "__main__":
    main()
