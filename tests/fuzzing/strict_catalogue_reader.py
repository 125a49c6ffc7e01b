"""A second reader of catalogues: PyYAML's result, checked against the rules at the top of datasets.yaml."""

import re

import yaml

__all__ = ["MalformedCatalogue", "Unsure", "read_catalogue_text"]

GREATEST = 1e9
FILE_NAME = "[A-Za-z0-9][A-Za-z0-9._+-]*"
ENTRY_NAME = "[a-z0-9][a-z0-9._+-]*"

#: Addresses that are valid beyond doubt; this reader decides on no others.
ADDRESS = re.compile(r"https://[a-z]+\.org/[A-Za-z0-9./{}]*")


class MalformedCatalogue(Exception):
    """The text is malformed; `line` is set if it is not YAML."""

    def __init__(self, line=None):
        super().__init__(f"line {line}")
        self.line = line


class Unsure(Exception):
    """Not decided here."""


def read_catalogue_text(content):
    """Return the plain content of a catalogue: its data sets by name as mappings, its recipes and its experiments.

    Raises
    ------
    MalformedCatalogue, Unsure
    """
    try:
        root = yaml.compose(content, yaml.SafeLoader)
        tree = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        raise MalformedCatalogue((error.problem_mark or error.context_mark).line + 1) from None
    except Exception:
        raise MalformedCatalogue from None
    _refuse_twice(root, set())
    top = _mapping(tree, {"datasets"}, {"recipes", "experiments"})
    datasets = _mapping(top["datasets"], set(), None)
    entries = {name: _entry(name, value) for name, value in datasets.items()}
    names = [*entries, *(alias for entry in entries.values() for alias in entry["aliases"])]
    _require(len(set(names)) == len(names))
    return entries, _free(top, "recipes"), _free(top, "experiments")


def _require(condition):
    if not condition:
        raise MalformedCatalogue


def _refuse_twice(node, seen):
    """Refuse equal keys in a mapping, except merged ones."""
    if id(node) in seen or not isinstance(node, yaml.CollectionNode):
        return
    seen.add(id(node))
    children = node.value
    if isinstance(node, yaml.MappingNode):
        scalars = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        keys = [key for key in scalars if key.tag != "tag:yaml.org,2002:merge"]
        texts = [yaml.SafeLoader("").construct_object(key, deep=True) for key in keys]
        for place, key in enumerate(keys):
            if texts[place] in texts[:place]:
                raise MalformedCatalogue(key.start_mark.line + 1)
        children = [child for pair in node.value for child in pair]
    for child in children:
        _refuse_twice(child, seen)


def _mapping(value, needed, others):
    """Return a mapping of texts that has the keys needed and, unless others is None, no more than others."""
    _require(isinstance(value, dict) and all(isinstance(key, str) for key in value))
    _require(value.keys() >= needed and (others is None or value.keys() <= needed | others))
    return value


def _free(mapping, key):
    _require(isinstance(mapping.get(key, {}), dict))
    return mapping.get(key, {})


def _text(value, pattern=".*"):
    _require(isinstance(value, str) and value.isprintable() and re.fullmatch(pattern, value))
    return value


def _count(value, least):
    _require(type(value) is int and least <= value <= GREATEST)
    return value


def _positive(value):
    _require(type(value) in (int, float) and 0 < value <= GREATEST)
    return float(value)


def _list(value):
    _require(isinstance(value, list))
    return value


def _entry(name, value):
    others = {"format", "aliases", "papers", "propensity", "sources", "note", "recipes", "results"}
    entry = _mapping(value, {"title", "shape", "files", "max_mb"}, others)
    _text(name, ENTRY_NAME)
    style = _text(entry.get("format", "repository"), "repository|libsvm")
    _require(("propensity" in entry) == (style == "repository"))
    shape = _mapping(entry["shape"], {"N", "N_test", "D", "K"}, set())
    shape = [_count(shape[key], key != "N_test") for key in ("N", "N_test", "D", "K")]
    roles = ["train", "test"] if shape[1] else ["train"]
    files = _mapping(entry["files"], set(roles), set())
    propensity = _mapping(entry.get("propensity", {"A": 1, "B": 1}), {"A", "B"}, set())
    return {
        "title": _text(entry["title"]),
        "aliases": [_text(alias, ENTRY_NAME) for alias in _list(entry.get("aliases", []))],
        "papers": [_text(paper) for paper in _list(entry.get("papers", []))],
        "format": style,
        "shape": shape,
        "propensity": [_positive(propensity[key]) for key in "AB"] if "propensity" in entry else None,
        "files": _files(roles, files),
        "sources": [_source(source, roles) for source in _list(entry.get("sources", []))],
        "max_bytes": int(_positive(entry["max_mb"]) * 1e6),
        "note": _text(entry.get("note", "")),
        "recipes": _free(entry, "recipes"),
        "results": _free(entry, "results"),
    }


def _files(roles, files):
    found = []
    for role in roles:
        file = _mapping(files[role], set(), {"name", "checksums"})
        name = _text(file.get("name", f"{role}.txt"), FILE_NAME)
        found.append([role, name, [_checksum(checksum) for checksum in _list(file.get("checksums", []))]])
    _require(len({name for _, name, _ in found}) == len(roles))
    return found


def _checksum(value):
    checksum = _mapping(value, set(), {"git", "sha256", "note"})
    (kind,) = _only(checksum, {"git": 40, "sha256": 64})
    digits = {"git": 40, "sha256": 64}[kind]
    _text(checksum.get("note", ""))
    return [kind, _text(checksum[kind], f"[0-9a-f]{{{digits}}}")]


def _only(mapping, kinds):
    found = mapping.keys() & set(kinds)
    _require(len(found) == 1)
    return found


def _source(value, roles):
    source = _mapping(value, set(), {"https", "archive", "drive", "mirror", "embedded", "members"})
    (kind,) = _only(source, {"https", "archive", "drive", "mirror", "embedded"})
    _require(("members" in source) == (kind in ("archive", "drive")))
    patterns = {"https": r".*\{file\}.*", "drive": "[A-Za-z0-9_-]+", "embedded": "toy"}
    where = _text(source[kind], patterns.get(kind, ".*"))
    if kind in ("https", "archive") and not ADDRESS.fullmatch(where):
        raise Unsure
    if "members" not in source:
        return [kind, where]
    members = _mapping(source["members"], set(roles), set())
    members = {role: _text(members[role]) for role in roles}
    _require(len(set(members.values())) == len(roles))
    return [kind, where, members]
