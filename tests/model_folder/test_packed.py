"""Packed models: read like their folders, and refused whole if a member could do harm."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import run
from tests.problems import small_dataset
from xmlgp import api
from xmlgp.data import cache
from xmlgp.errors import ModelFolderError
from xmlgp.model_folder import packed
from xmlgp.model_folder.folder import ModelFolder

#: Members of an archive as dictionaries of names to bytes.
DESCRIPTION = "model.json"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Return a packed model, which tests must not change."""
    folder = tmp_path_factory.mktemp("packed")
    settings = {"factors": 3, "epochs": 2}
    api.pack(api.train(small_dataset(), folder / "model", settings=settings), folder / "model.zip")
    return folder / "model.zip"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Work in an empty folder, with a cache of its own beside it."""
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    packed._temporary.clear()
    return tmp_path


def members(file):
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def with_array(file, data):
    """Return the members of an archive and one more array, which its description names."""
    content = members(file)
    description = json.loads(content[DESCRIPTION])
    description["arrays"]["zeros"] = {"file": "arrays/zeros.npy", "dtype": "<f8", "shape": [1]}
    return content | {DESCRIPTION: json.dumps(description).encode(), "arrays/zeros.npy": data}


def write(content, change=lambda info: None, compression=zipfile.ZIP_DEFLATED):
    """Write an archive of members by name, each changed by a function of its entry; return its path."""
    with zipfile.ZipFile("x.zip", "w", compression) as archive:
        for name, data in content.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = compression
            change(info)
            archive.writestr(info, data)
    return Path("x.zip")


def refused(path, match):
    """Check that a file is refused in a sentence that names it, and that nothing of it is left."""
    with pytest.raises(ModelFolderError, match=match) as caught:
        ModelFolder(path)
    assert str(caught.value).startswith(f"{path}")
    assert "cache" not in str(caught.value)
    assert unpacked_files() == []


def unpacked_files():
    root = cache.cache_root() / packed.KIND
    return sorted(file.name for file in root.rglob("*") if file.is_file() and file.parent.name != packed.DIGESTS)


def copies():
    """Return the folders of unpacked models."""
    root = cache.cache_root() / packed.KIND
    return sorted(path for path in root.iterdir() if path.name != packed.DIGESTS) if root.exists() else []


def test_arrays_are_mapped_from_the_cache_and_messages_name_the_file(file):
    shutil.copy(file, "x.zip")
    folder = ModelFolder("x.zip")
    assert str(folder.path) == "x.zip"
    assert copies() == [folder.root]
    array = folder.array("parameters.loadings")
    assert isinstance(array, np.memmap)
    assert not array.flags.writeable
    assert Path(array.filename).is_relative_to(folder.root)
    before = {path: path.stat().st_mtime_ns for path in folder.root.rglob("*") if path.is_file()}
    assert ModelFolder("x.zip").root == folder.root
    assert {path: path.stat().st_mtime_ns for path in before} == before
    for path in folder.root.glob("arrays/parameters.loadings.*"):
        path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(ModelFolderError, match=r"^x\.zip/arrays/parameters\.loadings.*: the array .* is damaged$"):
        ModelFolder("x.zip").array("parameters.loadings")


def test_a_file_with_the_same_content_shares_the_copy_and_one_with_another_does_not(file):
    for name in "a.zip", "b.zip":
        shutil.copy(file, name)
    assert ModelFolder("a.zip").root == ModelFolder("b.zip").root
    with zipfile.ZipFile("b.zip", "a") as archive:
        archive.writestr("README.md", "more") if "README.md" not in archive.namelist() else None
        archive.comment = b"another file"
    assert ModelFolder("a.zip").root != ModelFolder("b.zip").root
    assert len(copies()) == 2


def test_the_digest_of_a_file_that_is_unchanged_for_a_while_is_not_computed_again(file, monkeypatch):
    shutil.copy(file, "x.zip")
    calls = []
    digest = packed.file_digest
    monkeypatch.setattr(packed, "file_digest", lambda stream: calls.append(1) or digest(stream))
    # A file that has just been written may change without another time.
    for _ in range(2):
        ModelFolder("x.zip")
    assert len(calls) == 2
    monkeypatch.setattr(packed, "SETTLED_SECONDS", -1)
    roots = {ModelFolder("x.zip").root for _ in range(3)}
    assert (len(calls), len(roots)) == (3, 1)
    # The same size and time of writing, but not the same change.
    status = os.stat("x.zip")
    content = bytearray(Path("x.zip").read_bytes())
    with open("x.zip", "r+b") as stream:
        stream.write(content)
    os.utime("x.zip", ns=(status.st_atime_ns, status.st_mtime_ns))
    ModelFolder("x.zip")
    assert len(calls) == 4


@pytest.mark.parametrize("prefix", ["m/", "models/my model/"])
def test_a_folder_that_was_packed_by_hand_is_read(file, prefix):
    content = {f"{prefix}{name}": data for name, data in members(file).items()}
    extra = {prefix: b"", f"{prefix}arrays/": b"", f"{prefix}.lock": b"", f"{prefix}checkpoint.npz": b"x"}
    extra |= {"__MACOSX/._m": b"x", f"{prefix}.DS_Store": b"x"}
    folder = ModelFolder(write(extra | content))
    assert folder.arrays("").keys() == ModelFolder(file).arrays("").keys()
    assert {path.name for path in folder.root.iterdir()} == {"arrays", "model.json", "README.md"}


def test_zip_and_unzip_of_the_system_are_understood(file):
    if not (shutil.which("zip") and shutil.which("unzip")):
        pytest.skip("zip is not installed")
    subprocess.run(["unzip", "-q", file, "-d", "m"], check=True)
    subprocess.run(["zip", "-qr", "x.zip", "m"], check=True)
    for model in "m", "x.zip":
        assert api.load(model).parameters.keys() == api.load(file).parameters.keys()


HARMFUL_NAMES = [
    "../x.npy", "arrays/../../x.npy", "/x.npy", "arrays/a/b.npy", "arrays/.npy", "arrays/a.txt", "arrays/\u202e.npy",
    "run.py", "arrays\\x.npy", "C:/x.npy", "arrays/x.npy/", "x/", "other/model.jsonx", "arrays/..npy", "Model.json",
    "arrays/" + "a" * 300 + ".npy", "arrays/x.npy\n",
]  # fmt: skip


@pytest.mark.parametrize("name", HARMFUL_NAMES)
def test_a_member_that_no_model_has_is_refused_before_anything_is_unpacked(file, name, here):
    outside = set(here.rglob("*"))
    path = write(members(file) | {name: b""})
    refused(path, "not a packed model|is in it twice")
    assert set(here.rglob("*")) - outside == {here / "here" / "x.zip"}


@pytest.mark.parametrize("prefix", ["../", "/", "a/../", "a//", "./"])
def test_a_folder_in_the_archive_must_be_a_plain_one(file, prefix):
    refused(write({f"{prefix}{name}": data for name, data in members(file).items()}), "not a packed model")


def test_links_and_devices_are_refused(file):
    for kind in 0o120777, 0o010644, 0o060644:

        def change(info, kind=kind):
            if info.filename == DESCRIPTION:
                info.external_attr = kind << 16

        refused(write(members(file), change), "'model.json' in this packed model is not a regular file")


def test_members_of_one_name_are_refused(file):
    content = members(file)
    name = next(name for name in content if name.startswith("arrays/"))
    for other in name, name.upper().replace("ARRAYS", "arrays").replace("NPY", "npy"):
        write(content)
        with zipfile.ZipFile("x.zip", "a") as archive, pytest.warns() if other == name else open(os.devnull):
            archive.writestr(other, b"x")
        refused(Path("x.zip"), "is in it twice")
    write(content)
    with zipfile.ZipFile("x.zip", "a") as archive:
        archive.writestr("more/model.json", b"{}")
    refused(Path("x.zip"), "more than one model.json")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods_of_compression_are_refused(file, method):
    refused(write(members(file), compression=method), "compressed with a method other than deflate")


def changed(path, offset_in_list, value, name=DESCRIPTION):
    """Change bytes of the entry of a member in the list at the end of an archive."""
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x01\x02", 0, content.rindex(name.encode()))
    content[at + offset_in_list : at + offset_in_list + len(value)] = value
    path.write_bytes(content)
    return path


def test_encrypted_members_are_refused(file):
    refused(changed(write(members(file)), 8, b"\x01\x00"), "is encrypted")


def test_what_expands_too_much_is_refused_before_it_is_unpacked(file, monkeypatch):
    write(with_array(file, bytes(4 << 20)))
    assert ModelFolder("x.zip").root
    shutil.rmtree(cache.cache_root())
    monkeypatch.setattr(packed, "LEAST_LIMIT", 1 << 20)
    monkeypatch.setattr(packed, "MOST_EXPANSION", 10)
    refused(Path("x.zip"), "would expand to 4.2 MB, which is too much")


def test_arrays_that_the_description_does_not_name_cost_nothing(file, monkeypatch):
    content = members(file)
    empty = {f"arrays/left.{number}.npy": b"" for number in range(5000)}
    write(content | empty | {"arrays/zeros.npy": bytes(4 << 20)})
    monkeypatch.setattr(packed, "LEAST_LIMIT", 1 << 20)
    monkeypatch.setattr(packed, "MOST_EXPANSION", 0)
    folder = ModelFolder("x.zip")
    assert {path.relative_to(folder.root).as_posix() for path in folder.root.rglob("*.*")} == content.keys()
    assert folder.arrays("")


@pytest.mark.parametrize("description", [
    b"", b"[" * 10**6, b"[" + b"0," * 10**6 + b"0]", b" " * (17 << 20), b"3", b'{"arrays": [[]]}',
    b'{"arrays": {"a": {"file": []}, "b": 1}}',
])  # fmt: skip
def test_of_a_description_that_cannot_be_read_no_array_is_unpacked(file, description):
    path = write(members(file) | {DESCRIPTION: description})
    with pytest.raises(ModelFolderError, match=r"^x\.zip/model\.json: this is not the description of an xmlgp model$"):
        ModelFolder(path)
    assert not [name for name in unpacked_files() if name.endswith(".npy")]


def test_copies_that_were_unused_for_60_days_are_removed_and_their_digests(file, monkeypatch):
    monkeypatch.setattr(packed, "SETTLED_SECONDS", -1)
    roots = []
    for name in "old.zip", "used.zip", "new.zip":
        write(members(file) | {"README.md": name.encode()}).rename(name)
    for name in "old.zip", "used.zip":
        roots.append(ModelFolder(name).root)
    digests = cache.cache_root() / packed.KIND / packed.DIGESTS
    assert len(list(digests.iterdir())) == 2
    for path in *roots, *digests.iterdir(), digests:
        os.utime(path, (time.time() - 61 * cache.DAY,) * 2)
    # The use of a model keeps its copy and its digest.
    assert ModelFolder("used.zip").root == roots[1]
    new = ModelFolder("new.zip").root
    assert copies() == sorted([roots[1], new])
    kept = {path.read_text() for path in digests.iterdir()}
    assert kept == {root.name.partition("-")[0] for root in (roots[1], new)}


def test_what_does_not_fit_on_the_disk_is_refused_before_it_is_unpacked(file, monkeypatch):
    shutil.copy(file, "x.zip")
    with zipfile.ZipFile("x.zip") as archive:
        needed = sum(info.file_size for info in archive.infolist())
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=needed - 1))
    sizes = rf"needs {needed / 1e6:.1f} MB, but the disk of .* has {(needed - 1) / 1e6:.1f} MB left"
    with pytest.raises(ModelFolderError, match=rf"^x\.zip: unpacking it {sizes}$"):
        ModelFolder("x.zip")
    assert unpacked_files() == []


@pytest.mark.parametrize("claim", [100, 10**6])
def test_a_member_that_is_longer_or_shorter_than_it_claims_is_refused(file, claim):
    path = changed(write(with_array(file, bytes(5000))), 24, claim.to_bytes(4, "little"), "arrays/zeros.npy")
    refused(path, "the packed model is damaged")


def test_a_checksum_is_compared(file):
    refused(changed(write(members(file)), 16, b"\0\0\0\0"), r"the packed model is damaged \(Bad CRC-32")


def test_a_list_of_members_that_would_fill_the_memory_is_refused(file):
    with zipfile.ZipFile("x.zip", "w") as archive:
        for number in range(20_000):
            archive.writestr(f"arrays/{number:08}.npy", b"")
        archive.writestr(DESCRIPTION, b"{}")
    refused(Path("x.zip"), "the list of its members is larger than")


def test_unpacked_files_are_checked_like_those_of_a_folder(file):
    content = members(file)
    with pytest.raises(ModelFolderError, match=r"^x\.zip/model\.json: the description of the model is damaged$"):
        ModelFolder(write(content | {DESCRIPTION: content[DESCRIPTION].replace(b'"N": 40', b'"N": -1')}))
    with pytest.raises(ModelFolderError, match=r"^x\.zip/model\.json: this is not the description of an xmlgp model$"):
        ModelFolder(write(content | {DESCRIPTION: b"{}"}))
    name = next(name for name in content if name.startswith("arrays/parameters.loadings"))
    missing = {other: data for other, data in content.items() if other != name}
    with pytest.raises(ModelFolderError, match=r"^x\.zip/arrays/parameters\.loadings.* is missing$"):
        api.load(write(missing))


def test_a_copy_that_lost_a_file_is_made_again(file):
    folder = ModelFolder(file)
    array = folder.array("parameters.loadings")
    expected = np.array(array)
    os.unlink(array.filename)
    (folder.root / DESCRIPTION).write_bytes(b"")
    again = ModelFolder(file)
    np.testing.assert_array_equal(again.array("parameters.loadings"), expected)
    np.testing.assert_array_equal(array, expected)
    assert copies() == [again.root]


def test_a_copy_can_be_read_by_those_who_can_read_the_file(file):
    before = os.umask(0o022)
    try:
        for mode, expected in (0o600, 0o700), (0o640, 0o750), (0o644, 0o755):
            shutil.copy(file, "x.zip")
            os.chmod("x.zip", mode)
            shutil.rmtree(cache.cache_root(), ignore_errors=True)
            assert ModelFolder("x.zip").root.stat().st_mode & 0o777 == expected
    finally:
        os.umask(before)


def test_threads_that_open_the_same_file_make_one_copy(file, monkeypatch):
    made = []
    unpack = packed._unpack
    barrier = threading.Barrier(4)

    def counted(*arguments):
        made.append(1)
        unpack(*arguments)

    def open_model(number):
        barrier.wait(60)
        return ModelFolder(file).root

    monkeypatch.setattr(packed, "_unpack", counted)
    with ThreadPoolExecutor(4) as pool:
        roots = set(pool.map(open_model, range(4)))
    assert (len(roots), made) == (1, [1])
    assert copies() == sorted(roots)


#: A process that unpacks a model, and is killed after some files.
KILLED = """
import os, signal, sys
from xmlgp.model_folder import packed
create, made = packed.create_file, []
def counted(file):
    made.append(file)
    if len(made) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return create(file)
packed.create_file = counted
packed.unpacked(packed.Path(sys.argv[1]))
"""


def test_a_process_that_is_killed_while_it_unpacks_leaves_nothing_that_lasts(file):
    pytest.importorskip("fcntl")
    result = subprocess.run([sys.executable, "-c", KILLED, file], check=False)
    assert result.returncode == -signal.SIGKILL
    assert unpacked_files()
    root = ModelFolder(file).root
    assert copies() == [root]
    assert not list(cache.cache_root().rglob(".lock"))


def test_an_interruption_leaves_nothing(file, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(packed, "create_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ModelFolder(file)
    assert copies() == []


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_cache_folder_that_cannot_be_written_is_replaced_by_a_temporary_one(file, monkeypatch, tmp_path, code):
    def refuse(kind):
        raise OSError(code, os.strerror(code), "cache")

    monkeypatch.setattr(packed, "folder_for_run", refuse)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(packed.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    kept = []
    monkeypatch.setattr(packed.atexit, "register", lambda *arguments: kept.append(arguments))
    folder = ModelFolder(file)
    assert folder.root.parent == tmp_path / "temporary"
    assert folder.array("parameters.loadings") is not None
    # A command opens a model several times.
    assert ModelFolder(file).root == folder.root
    ((close, *arguments),) = kept
    close(*arguments)
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "folder that cannot be written", "no home"])
def test_commands_read_a_packed_model_without_a_cache_folder(file, tmp_path, kind):
    environment = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
    (tmp_path / "temporary").mkdir()
    if kind == "file":
        (tmp_path / "cache").write_text("")
    elif kind == "no home":
        environment = {name: value for name, value in environment.items() if not name.startswith("XDG_")}
        environment |= {"XMLGP_CACHE_DIR": "", "HOME": "nowhere"}
    elif os.geteuid():
        (tmp_path / "cache").mkdir(mode=0o500)
    else:
        environment |= {"XMLGP_CACHE_DIR": "/proc/cache"}
    result = subprocess.run(
        [sys.executable, "-m", "xmlgp", "show", file], env=environment, capture_output=True, text=True, check=False
    )
    assert result.stderr == ""
    assert result.stdout.startswith(f"{file}: mlgpf, trained")
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_full_disk_is_one_sentence(file, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a file in the cache")

    monkeypatch.setattr(packed, "create_file", full)
    shutil.copy(file, "x.zip")
    with pytest.raises(ModelFolderError, match=r"^x\.zip: it cannot be unpacked into .*: No space left on device$"):
        ModelFolder("x.zip")
    assert copies() == []


def test_a_file_that_changes_while_it_is_read_is_refused(file, monkeypatch):
    shutil.copy(file, "x.zip")
    digest = packed.file_digest

    def changing(stream):
        with open("x.zip", "ab") as other:
            other.write(b"x")
        return digest(stream)

    monkeypatch.setattr(packed, "file_digest", changing)
    refused(Path("x.zip"), "changed while it was being read")


def test_a_file_that_changes_after_its_digest_is_known_gives_no_copy(file, monkeypatch):
    shutil.copy(file, "x.zip")
    unpack = packed._unpack

    def changing(archive, *rest):
        with open("x.zip", "ab") as other:
            other.write(b"x")
        unpack(archive, *rest)

    monkeypatch.setattr(packed, "_unpack", changing)
    refused(Path("x.zip"), "changed while it was being read")
    assert not copies()


@pytest.mark.parametrize("name", ["file_digest", "_unpack"])
def test_a_file_that_another_one_replaces_is_read_as_it_was(file, monkeypatch, name):
    expected = ModelFolder(file).description
    shutil.rmtree("../cache")
    shutil.copy(file, "x.zip")
    Path("other.zip").write_bytes(b"of another model")
    function = getattr(packed, name)

    def replacing(*arguments):
        if os.path.exists("other.zip"):
            os.replace("other.zip", "x.zip")
        return function(*arguments)

    monkeypatch.setattr(packed, name, replacing)
    assert ModelFolder("x.zip").description == expected
    assert Path("x.zip").read_bytes() == b"of another model"


def test_what_is_no_archive_is_named(tmp_path):
    for content in b"", b"a text", b"PK", bytes(1000):
        Path("x.zip").write_bytes(content)
        refused(Path("x.zip"), "this is a file, but a model is a folder, or a file that `xmlgp pack` wrote")
        assert not ModelFolder.exists("x.zip")
    os.mkfifo("pipe")
    with pytest.raises(ModelFolderError, match="pipe: there is no model here"):
        ModelFolder("pipe")


def test_a_corpus_in_a_workbook_is_not_taken_for_a_model(file):
    write({"xl/workbook.xml": b"<x/>", "[Content_Types].xml": b"<x/>"})
    assert not ModelFolder.exists("x.zip")
    assert ModelFolder.exists(file)


@pytest.mark.parametrize("command", [["learn"], ["tune"]])
def test_commands_that_change_a_model_leave_a_packed_one(file, command, tmp_path):
    shutil.copy(file, "x.zip")
    before = Path("x.zip").read_bytes()
    result = run(*command, "x.zip", "data")
    assert result.exit_code == 1
    assert "a packed model is not changed; unpack it with `unzip x.zip -d x`" in result.stderr
    with pytest.raises(ModelFolderError, match="is not changed"):
        api.train(small_dataset(), "x.zip", settings={"epochs": 1})
    with pytest.raises(ModelFolderError, match="is not changed"):
        api.load("x.zip").save("x.zip")
    with pytest.raises(ModelFolderError, match="is not changed"):
        api.learn(api.load("x.zip"), small_dataset(seed=3))
    assert Path("x.zip").read_bytes() == before
    assert sorted(os.listdir()) == ["x.zip"]
