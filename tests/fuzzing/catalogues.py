"""Catalogues: loaded as the second reader understands them, or refused; bad YAML in the line where it is."""

import copy

import yaml
from hypothesis import strategies as st

from tests.data.test_catalogue import SMALL, places
from tests.fuzzing.hunt import Sample
from tests.fuzzing.mangling import mangled
from tests.fuzzing.sentences import attempted, ends_well
from tests.fuzzing.strict_catalogue_reader import MalformedCatalogue, Unsure, read_catalogue_text
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.sources import Archive, Embedded, Files, Mirror, google_drive_address

__all__ = ["Catalogues"]

BY_HAND = b"""# with all shorthands of YAML
datasets:
  small: &small
    title: "A \\u0073mall set"   # quoted
    shape: &shape {N: 3, N_test: 2, D: 0x5, K: 0b100}
    propensity: {A: 0.55, B: 1.5}
    max_mb: .5
    files: {train: {}, test: {checksums: [{git: '0123456789012345678901234567890123456789'}]}}
    sources:
    - {https: 'https://example.org/{file}'}
    note: >-
      folded
      text
  other:
    <<: *small
    title: Another
    shape: {<<: *shape, N: 1_000}
    aliases: [another]
recipes:
  one: &one {kernel: linear, factors: 3, ard: yes}
  two: {<<: *one, factors: 4}
  three: {<<: [{seed: 1}, *one], at: 2001-02-03, "on": .nan}
experiments:
  table: [*one, [*one, *one], null, ~, !!str 3, !!float 3, 1:30]
"""
WHOLE = [yaml.safe_dump(SMALL).encode(), yaml.safe_dump(SMALL, default_flow_style=True).encode(), BY_HAND]

TOKENS = [
    b"&a ", b"*a", b"*small", b"*one", b"<<: *small\n", b"<<: *one, ", b"<<: [*one, *one], ", b"{<<: *shape}", b"? ",
    b"!!python/object:os.system ", b"!!map ", b"!!set ", b"!!binary ", b"!!timestamp ", b"!!merge ", b"!<x> ",
    b"!!int ", b"---\n", b"...\n", b"%YAML 1.1\n", b"%TAG ! !\n", b"|\n", b">-\n", b"- ", b"'", b'"', b"#", b"@", b"`",
    b"title: ", b"\n  title: x\n", b"N: 3, ", b"null", b"~", b"yes", b"true", b".inf", b".nan", b"1e999",
    b"0x" + b"f" * 5000, b"2001-02-30", b"2001-01-01", b"1:99", b'"\\ud800"', b'"\\u2028"', b'"\\x1b"', b"[", b"]",
    b"{", b"}", b"\xff\xfeh\0", b"[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]", b"&b [*one, *one]",
    b"[&b [1, 1], &c [*b, *b], &d [*c, *c]]",
]  # fmt: skip

KEYS = st.sampled_from([*"NDK", "train", "name", "git", "https", "drive", "members", "x", "a b", "\x1b"])
PLAIN = st.sampled_from(
    [None, True, 0, 1, -1, 10**9, 10**9 + 1, 10**400, 0.5, float("nan"), float("inf"), "", "x", "Small", "../x", "a\nb"]
    + ["\u2028", "https://example.org/{file}", "https://[", "http://example.org/{file}", "x" * 5000, "0" * 40, "toy"]
)
VALUES = st.recursive(
    PLAIN | st.dates() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.integers(), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def rewritten(draw):
    """Draw a catalogue with some values or keys changed."""
    tree = copy.deepcopy(SMALL)
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(places(tree)))
        node = tree
        for step in path[:-1]:
            node = node[step]
        match draw(st.sampled_from(["replace", "delete", "add"])):
            case "replace":
                node[path[-1]] = draw(VALUES)
            case "delete":
                del node[path[-1]]
            case "add" if isinstance(node, dict):
                node[draw(KEYS)] = draw(VALUES)
    return yaml.safe_dump(tree, allow_unicode=draw(st.booleans())).encode("utf-8", "surrogatepass")


class Catalogues:
    """Catalogues.

    Parameters
    ----------
    folder : Path
        To work in.
    """

    name = "catalogue"
    samples = st.one_of(mangled(WHOLE, TOKENS), rewritten()).map(lambda content: Sample("", {"my.yaml": content}))

    def __init__(self, folder):
        self.folder = folder

    def check(self, sample):
        """Load the catalogue and compare; return whether it was read."""
        content = sample.files["my.yaml"]
        path = self.folder / "my.yaml"
        path.write_bytes(content)
        catalogue, error = attempted(lambda: load_catalogue(path))
        ends_well("fetch", "--list", "--catalogue", path)
        try:
            expected, line = read_catalogue_text(content), None
        except Unsure:
            return catalogue is not None
        except MalformedCatalogue as reason:
            expected, line = None, reason.line
        if expected is None:
            assert catalogue is None
            # If a catalogue has two errors, the second reader reports the bad YAML first.
            assert not line or "duplicate key" in str(error) or str(error).startswith(f"{path}:{line}: "), error
            return False
        assert catalogue is not None, error
        # As text, since NaN is not equal to itself.
        found = {name: plain(entry) for name, entry in catalogue.entries.items()}
        assert repr((found, catalogue.recipes, catalogue.experiments)) == repr(expected)
        return True


def plain(entry):
    """Return an entry in the form of `read_catalogue_text`."""
    shape, propensity = entry.shape, entry.propensity
    files = [
        [file.role, file.name, [[checksum.kind, checksum.digest] for checksum in file.checksums]]
        for file in entry.files
    ]
    assert [file.points for file in entry.files] == [shape.N, shape.N_test][: len(files)]
    return {
        "title": entry.title,
        "aliases": list(entry.aliases),
        "papers": list(entry.papers),
        "format": entry.format,
        "shape": [shape.N, shape.N_test, shape.D, shape.K],
        "propensity": propensity and [propensity.A, propensity.B],
        "files": files,
        "sources": [plain_source(source) for source in entry.sources],
        "max_bytes": entry.max_bytes,
        "note": entry.note,
        "recipes": entry.recipes,
        "results": entry.results,
    }


def plain_source(source):
    match source:
        case Files(template):
            return ["https", template]
        case Mirror(address):
            return ["mirror", address]
        case Embedded(name):
            return ["embedded", name]
        case Archive(address, members):
            start, end = google_drive_address("|").split("|")
            if address.startswith(start):
                return ["drive", address.removeprefix(start).removesuffix(end), members]
            return ["archive", address, members]
