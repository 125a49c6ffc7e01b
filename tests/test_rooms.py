"""The rooms of the house: their sizes, and which of them import which."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "xmlgp"

#: The rooms from the ground up, with their largest size, in thousands of nodes of the syntax tree. A room imports only
#: those below it.
BUDGETS = {
    "runtime": 2.7,
    "linear_algebra": 2.8,
    "data": 8.5,
    "text": 7.2,
    "metrics": 3.9,
    "features": 2.5,
    "gp": 8.9,
    "training": 4.0,
    "prediction": 6.7,
    "neighbours": 7.6,
    "models": 1.9,
    "models/mlgpf": 11.9,
    "models/bmlpl": 6.1,
    "models/gpc": 3.3,
    "model_folder": 2.2,
    "api": 12.5,
    "cluster": 1.6,
    "reporting": 1.2,
    "serving": 2.8,
    "estimators": 2.0,
    "cli": 4.7,
}

#: Of all rooms and the top level together, in thousands.
ALL = 104.0

#: Each model has a room in `models`, whose table and records hold them together.
MODELS = {"models/mlgpf", "models/bmlpl", "models/gpc"}

#: Rooms that the others, but the command line, the estimators and the facade, never import.
WINGS = {"cluster", "reporting", "serving"}


def size_of(node):
    """Return the nodes of a syntax tree without annotations, imports and docstrings."""
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if is_docstring or isinstance(node, ast.Import | ast.ImportFrom | ast.expr_context):
        return 0
    fields = (value for name, value in ast.iter_fields(node) if name not in ("annotation", "returns", "type_comment"))
    children = (child for value in fields for child in (value if isinstance(value, list) else [value]))
    return 1 + sum(size_of(child) for child in children if isinstance(child, ast.AST))


def trees():
    """Return the syntax tree of each module by its dotted name."""
    paths = {path: path.relative_to(PACKAGE.parent).with_suffix("").parts for path in sorted(PACKAGE.rglob("*.py"))}
    return {".".join(parts).removesuffix(".__init__"): ast.parse(path.read_text()) for path, parts in paths.items()}


TREES = trees()


def room_of(module):
    """Return the room of a module, or "" for one of the top level."""
    _, *folders = module.split(".")
    rooms = ["/".join(folders[:2]), *folders[:1]]
    return next((room for room in rooms if room in BUDGETS), "")


def imported_by(module):
    """Return the modules of xmlgp that a module imports, anywhere in it."""
    names = set()
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names & TREES.keys() if room_of(name)} - {module}


def circles():
    """Return the modules that lie on a circle of imports, or between two."""
    graph = {module: imported_by(module) for module in TREES}
    while True:
        imported = set().union(*graph.values())
        ends = {module for module, names in graph.items() if not names or module not in imported}
        if not ends:
            return sorted(graph)
        graph = {module: names - ends for module, names in graph.items() if module not in ends}


def test_the_house_stays_within_its_budgets():
    sizes = dict.fromkeys(BUDGETS, 0)
    for module, tree in TREES.items():
        sizes[room_of(module)] = sizes.get(room_of(module), 0) + size_of(tree) / 1000
    over = {room: round(size, 2) for room, size in sizes.items() if size > BUDGETS.get(room, 1)}
    assert over == {}
    assert sum(sizes.values()) <= ALL


def test_rooms_import_only_those_below_them():
    order = [room for room in BUDGETS if room not in MODELS]

    def floor(module):
        return order.index(room_of(module).partition("/")[0])

    wrong = [
        f"{module} imports {imported}"
        for module in TREES
        if room_of(module)
        for imported in sorted(imported_by(module))
        if floor(imported) > floor(module)
    ]
    assert wrong == []


@pytest.mark.parametrize("model", sorted(MODELS))
def test_a_model_imports_nothing_of_the_others(model):
    wrong = [
        f"{module} imports {imported}"
        for module in TREES
        if room_of(module) == model
        for imported in sorted(imported_by(module))
        if room_of(imported) in MODELS - {model}
    ]
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle():
    assert circles() == []


@pytest.mark.parametrize("wing", sorted(WINGS))
def test_the_core_imports_no_wing(wing):
    core = BUDGETS.keys() - WINGS - {"estimators", "cli"}
    importers = [
        module
        for module in TREES
        if room_of(module) in core and wing in {room_of(imported) for imported in imported_by(module)}
    ]
    assert importers == []


def test_no_module_hides_an_import_of_its_own_room_from_python():
    hidden = [
        f"{module} imports {node.module}"
        for module, tree in TREES.items()
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and room_of(module) and room_of(node.module or "") == room_of(module)
    ]
    assert hidden == []
