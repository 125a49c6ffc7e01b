"""What the code of the package does not have, and no rule of the linter looks for."""

import ast
from pathlib import Path

import pytest

import xmlgp

PACKAGE = Path(xmlgp.__file__).parent

#: Names of one statement that a reader still sees at once.
MOST_TARGETS = 2


def packed_assignments(tree: ast.AST) -> list[int]:
    """Return the lines of assignments of three values or more to as many names."""
    assignments = (node for node in ast.walk(tree) if isinstance(node, ast.Assign))
    return [
        node.lineno
        for node in assignments
        if isinstance(node.value, ast.Tuple)
        and isinstance(node.targets[0], ast.Tuple)
        and len(node.targets[0].elts) > MOST_TARGETS
    ]


def texts_times_conditions(tree: ast.AST) -> list[int]:
    """Return the lines of texts that are multiplied by whether something is so."""
    products = (node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult))
    return [
        node.lineno
        for node in products
        if any(map(_is_text, (node.left, node.right))) and any(map(_is_condition, (node.left, node.right)))
    ]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_condition(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    is_bool = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bool"
    return is_bool or isinstance(node, ast.Compare | ast.BoolOp)


@pytest.mark.parametrize("unwanted", [packed_assignments, texts_times_conditions])
def test_no_file_has_what_readers_stop_at(unwanted):
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 200
    places = [f"{file}:{line}" for file in files for line in unwanted(ast.parse(file.read_text()))]
    assert not places


def test_what_is_unwanted_is_recognised():
    assert packed_assignments(ast.parse("a, b, c = 1, 2, 3\na, b = b, a\na, b, c = f()")) == [1]
    unwanted = 'text = "s" * (n != 1)\ntext = f"{n} s" * bool(n)\ntext = "-" * width'
    assert texts_times_conditions(ast.parse(unwanted)) == [1, 2]
    assert texts_times_conditions(ast.parse('text = "s" * (not n)')) == [1]
