#!/usr/bin/env bash
# DuckDB 2.0.1: read_json loses every value of a column that is null in the first 20,480 lines.
#
# Expected: the values, or an error. The reader takes the types from a sample of 20,480 lines (`sample_size`), and a
# later value that does not fit, such as text in a column of numbers, is an error that names the line and `sample_size`.
# A list that is empty in the whole sample becomes JSON[], which takes any value.
# Seen: a column that is null in the whole sample has the type "NULL", and numbers, texts and lists after it are read
# as null: no error, no warning. One line with a value within the sample, and all are there.
# (Reported upstream are that a new key after the sample is dropped, 25826, and that numbers are rounded, 25786; a
# search of the issues did not find this case, in which the key is in every line.)
# Who meets it: whoever reads JSON Lines in which the labels are null for points without labels and the labelled points
# come last, or a score that only later records have. 20,480 lines is more than most test files have.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --no-compile --quiet --disable-pip-version-check duckdb==2.0.1
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import json
from pathlib import Path

import duckdb

print("DuckDB", duckdb.__version__)


def read(first: object, lines: int, last: object) -> tuple[str, int, object]:
    """Write `lines` records with the first value and one with the last; return type, records and the last value."""
    values = [first] * lines + [last]
    Path("points.jsonl").write_text("".join(json.dumps({"id": n, "labels": v}) + "\n" for n, v in enumerate(values)))
    table = duckdb.sql("SELECT * FROM read_json('points.jsonl') ORDER BY id")
    kind, rows = str(table.types[1]), table.fetchall()
    print(f"{lines} times {json.dumps(first)}, then {json.dumps(last)}: {kind}, {len(rows)} records,", end=" ")
    print("the last of them", rows[-1][1])
    return kind, len(rows), rows[-1][1]


# The surprise.
for value in ([4, 7], "alpha", 0.5):
    assert read(None, 20_480, value) == ('"NULL"', 20_481, None)
# The controls: one line less; an empty list, for which the type is JSON; text among numbers, which is an error.
assert read(None, 20_479, [4, 7]) == ("BIGINT[]", 20_480, [4, 7])
assert read([], 20_480, [4, 7]) == ("JSON[]", 20_481, ["4", "7"])
try:
    read(1, 20_480, "alpha")
except duckdb.Error as error:
    print("20480 times 1, then alpha:", str(error).splitlines()[0])
else:
    raise AssertionError("text in a column of numbers was read")
print("seen: values after 20,480 nulls are read as null")
PY
