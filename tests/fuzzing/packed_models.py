"""Packed models: refused in one sentence that names the file, or read as the same model; nothing is written outside."""

import io
import shutil
import zipfile
import zlib

from hypothesis import strategies as st

from tests.cli.disk import everything
from tests.fuzzing.mangling import Sample, mangled
from tests.fuzzing.model_originals import DESCRIPTION, make_originals
from tests.fuzzing.text_files import attempted, ends_well
from xmlgp.data.cache import cache_root
from xmlgp.model_folder import packed
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.pack import pack

__all__ = ["PackedModels"]

#: A small model; its folder is damaged by another kind of samples.
MODEL = "topics"

FILE = "model.zip"

#: Names of members, harmless ones among them.
NAMES = [
    "../model.json", "/model.json", "x/model.json", "arrays/x.npy", "arrays/../model.json", "README.md", "run.py", "x/",
    "arrays/", "arrays/\u202e.npy", "C:\\x", "", "MODEL.JSON", "checkpoint.npz", "__MACOSX/x", "arrays/" + "x" * 300,
]  # fmt: skip

#: Parts of the structure of an archive.
TOKENS = [
    b"PK\1\2", b"PK\3\4", b"PK\5\6", b"PK\6\6", b"PK\6\7", b"PK\7\x08", b"\xff" * 4, b"\xff" * 8, b"\0" * 4, b"\1\0",
    b"\x08\0", b"\x0c\0", b"\x0e\0", b"\x63\0", b"\xed\xa1", b"\1\0\x10\0", b"model.json", b"../del.json",
    b"\xff\xff\xff\x7f",
]  # fmt: skip


def written(members, method=zipfile.ZIP_DEFLATED):
    """Return an archive of pairs of a name and content, which may repeat."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            # zipfile warns of names that repeat.
            archive.NameToInfo.pop(name, None)
            archive.writestr(info, content)
    return stream.getvalue()


@st.composite
def rearranged(draw, members):
    """Draw an archive with members renamed, repeated, missing, added, or made a link."""
    found = list(members)
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(found) - 1))
        name, content = found[at]
        match draw(st.sampled_from(["rename", "repeat", "remove", "add", "content", "prefix"])):
            case "rename":
                found[at] = draw(st.sampled_from(NAMES)) or "x", content
            case "repeat":
                found.append((name, draw(st.sampled_from([content, b"", b"{}"]))))
            case "remove" if len(found) > 1:
                del found[at]
            case "add":
                found.append((draw(st.sampled_from(NAMES)) or "x", draw(st.sampled_from([b"", b"{}", bytes(10**6)]))))
            case "content":
                found[at] = name, draw(st.sampled_from([b"", b"{}", content[:-1], content + b"x"]))
            case "prefix":
                prefix = draw(st.sampled_from(["m/", "a/b/", "../", "/", "m//"]))
                found = [(prefix + name, content) for name, content in found]
    return written(found, draw(st.sampled_from([zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2])))


class PackedModels:
    """Packed models, made in a folder to work in."""

    def __init__(self, folder):
        self.folder = folder
        make_originals(folder, [MODEL])
        pack(folder / MODEL, folder / "whole.zip")
        content = (folder / "whole.zip").read_bytes()
        with zipfile.ZipFile(folder / "whole.zip") as archive:
            self._members = {name: archive.read(name) for name in archive.namelist()}
        self._scores = self._use(folder / "whole.zip")
        small = written([(name, data) for name, data in self._members.items() if len(data) < 10_000])
        # The list of members is at the end, where most damage is to be.
        ends = mangled([content[content.index(b"PK\1\2") :]], TOKENS)
        samples = st.one_of(
            *[ends.map(lambda end: content[: content.index(b"PK\1\2")] + end)] * 2,
            mangled([content, small], TOKENS),
            rearranged(list(self._members.items())),
            st.just(content),
        )
        self.samples = samples.map(lambda content: Sample("", {FILE: content}))

    def check(self, sample):
        """Read the file and use it; return whether it was read."""
        path = self.folder / FILE
        path.write_bytes(sample.files[FILE])
        # A sample may be of the same time and size as the one before.
        shutil.rmtree(cache_root() / packed.KIND / packed.DIGESTS, ignore_errors=True)
        before = everything(self.folder)
        found, error = attempted(lambda: ModelFolder(path))
        if error:
            assert str(error).startswith(f"{path}")
            assert str(cache_root()) not in str(error)
        shown = ends_well("show", path)
        assert (shown is None) == (error is not None)
        scores = self._use(path)
        if scores is not None and found is not None and self._is_same(found):
            assert scores == self._scores
        after = everything(self.folder)
        inside = {name for name in after if name.startswith("cache")}
        changed = {name for name in after.keys() | before.keys() if after.get(name) != before.get(name)}
        assert changed - inside - {"out.scores"} == set()
        shutil.rmtree(cache_root() / packed.KIND, ignore_errors=True)
        return scores is not None

    def _use(self, path):
        """Return the content of the scores file of a model, or None."""
        out = self.folder / "out.scores"
        out.write_bytes(b"")
        test = self.folder / "test.txt"
        return None if ends_well("predict", "-q", path, test, "-k", "2", "-o", out) is None else out.read_bytes()

    def _is_same(self, folder):
        """Return whether an unpacked model has the files of the whole one: checksums are those of the archive."""
        files = {name: (folder.root / name) for name in self._members}
        return all(
            file.exists() and zlib.crc32(file.read_bytes()) == zlib.crc32(self._members[name])
            for name, file in files.items()
            if name.startswith("arrays/") or name == DESCRIPTION
        )
