"""Model folders are untrusted: damage raises an error of one line, and no code is run."""

import json
import os

import numpy as np
import pytest

from tests.model_folder.test_folder import DATA, HISTORY, write
from xmlgp.api.interrupted import InterruptedRun
from xmlgp.model_folder.folder import ModelFolder, lock_model_folder
from xmlgp.runtime import untrusted_json
from xmlgp.runtime.errors import ModelFolderError
from xmlgp.training.result import HeldOutMeasures


def describe(path, **changes):
    """Change the description of a model by hand."""
    file = path / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_missing_model(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "model.json").mkdir(parents=True)
    for path in (tmp_path, tmp_path / "folder"):
        with pytest.raises(ModelFolderError, match=r"there is no model here \(no model.json\)$"):
            ModelFolder(path)
    for path in (tmp_path / "nowhere", tmp_path / "nowhere.zip", tmp_path / "file" / "model"):
        with pytest.raises(ModelFolderError, match=": there is no such folder; "):
            ModelFolder(path)
    with pytest.raises(ModelFolderError, match="this is a file, but a model is a folder$"):
        ModelFolder(tmp_path / "file")


NOT_A_DESCRIPTION = [
    b"", b'{"format": "xmlgp model folder"', b"\xff\xfe", b"null", b"{}", b'{"format": ["xmlgp model folder"]}',
    b"[" * 100_000, b'{"a": ' + b"9" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("content", NOT_A_DESCRIPTION, ids=lambda content: repr(content[:20]))
def test_file_that_is_not_a_description(tmp_path, content):
    (tmp_path / "model.json").write_bytes(content)
    with pytest.raises(ModelFolderError, match=r"model.json: this is not the description of an xmlgp model$"):
        ModelFolder(tmp_path)


def test_huge_description_is_not_read_in_full(tmp_path, monkeypatch):
    write(tmp_path)
    monkeypatch.setattr(untrusted_json, "LARGEST", 100)
    with pytest.raises(ModelFolderError, match="this is not the description"):
        ModelFolder(tmp_path)


@pytest.mark.parametrize("version", [0, 2, None, True, "one\ntwo", [["x"] * 99] * 99], ids=type)
def test_other_format_versions(tmp_path, version):
    write(tmp_path)
    describe(tmp_path, format_version=version, written_by="xmlgp 9.9")
    with pytest.raises(ModelFolderError, match="format .{1,60} by 'xmlgp 9.9'; this is xmlgp .* reads format 1$"):
        ModelFolder(tmp_path)


MEASURED = HeldOutMeasures(9, 50.0, 40.0, 30.0, 0.2, 0.1, ((0.0, 1.0),) * 6)._asdict()
ENTRY = {"file": "arrays/a.npy", "dtype": "<f4", "shape": [2]}

#: Wrong values of each key, in bytes as JSON text, where Python cannot write it; None stands for no key.
DAMAGED = {
    "model": [None, ["mlgpf"], "another"],
    "written_by": [None, b"null", 3, "xmlgp 1\nall is well", "\x1b[2J", "\ud800"],
    "stage": [None, "half", ["trained"]],
    "settings": [None, []],
    "data": [None, b"null", {}, *(DATA | value for value in ({"N": "3"}, {"D": None}, {"K": 2.5}, {"fingerprint": 3}))],
    "history": [None, [], {}, [3], [{"epoch": 1}], [HISTORY[0] | {"bound": "x"}]]
    # Neither NaN nor infinite, also as a float.
    + [b'[{"epoch": 1, "bound": 1, "seconds": %b}]' % number for number in (b"NaN", b"1e999", b"1" + b"0" * 400)],
    "held_out": [b"null", {}, MEASURED | {"points": 2.5}, MEASURED | {"precision_1": "x"}],
    "classes": ["01", [0, 1, 2], [0, 0], [1, 0], [0, True], [None, None], {"a": 0, "b": 1}, ["a", "b" * 1001]],
    "arrays": [None, [], {"a": "a.npy"}, {"a": {}}, {"a": [ENTRY]}]
    + [{"a": ENTRY | {"file": value}} for value in (None, 3, ["arrays/a.npy"])]
    + [{"a": ENTRY | {"dtype": value}} for value in ("|O", "<u2", "f4", {"a": 1})]
    + [{"a": ENTRY | {"shape": value}} for value in (2, ["2"], [2.5])],
    "theirs": [b"[" * 500 + b"]" * 500, {"a\nb": 1}],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key in DAMAGED for value in DAMAGED[key]], ids=repr)
def test_damaged_description(tmp_path, key, value):
    write(tmp_path)
    file = tmp_path / "model.json"
    description = json.loads(file.read_text())
    description.pop(key, None)
    content = json.dumps(description).encode()
    if value is not None:
        value = value if isinstance(value, bytes) else json.dumps(value).encode()
        content = content[:-1] + b', "%b": %b}' % (key.encode(), value)
    file.write_bytes(content)
    with pytest.raises(ModelFolderError, match=r"model.json: the description of the model is damaged$"):
        ModelFolder(tmp_path)


@pytest.mark.parametrize("value", [{"factors": 0}, {"factors": "3"}, {"kernel": ["se"]}, {"unheard_of": 1}])
def test_invalid_settings(tmp_path, value):
    write(tmp_path)
    describe(tmp_path, settings=value)
    with pytest.raises(ModelFolderError, match=f"model.json: {next(iter(value))} is"):
        ModelFolder(tmp_path)


OUTSIDE = [
    "../x.npy", "arrays/../../x.npy", "arrays/../x.npy", "arrays/sub/x.npy", "x.npy",
    "arrays//x.npy", "./arrays/x.npy", "arrays/./x.npy", "arrays/", "arrays", "", "arrays/link.npy",
]  # fmt: skip


@pytest.mark.parametrize("name", [*OUTSIDE, None])
def test_files_outside_the_folder_of_arrays_are_not_read(tmp_path, name):
    path = tmp_path / "model"
    write(path)
    (path / "arrays" / "sub").mkdir()
    for place in (tmp_path, path, path / "arrays", path / "arrays" / "sub"):
        np.save(place / "x.npy", np.ones(2))
    (path / "arrays" / "link.npy").symlink_to(tmp_path / "x.npy")
    name = str(tmp_path / "x.npy") if name is None else name
    assert (path / name).exists()
    describe(path, arrays={"secret": {"file": name, "dtype": "<f8", "shape": [2]}})
    with pytest.raises(ModelFolderError, match="damaged"):
        ModelFolder(path)


@pytest.fixture
def array_file(tmp_path):
    folder = write(tmp_path)
    return folder, tmp_path / folder.entries("")["parameters.matrix"]["file"]


def assert_rejected(array_file, reason):
    folder, file = array_file
    with pytest.raises(ModelFolderError) as caught:
        folder.array("parameters.matrix")
    assert str(caught.value).startswith(f"{file}: the array parameters.matrix ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelFolderError):
        folder.arrays("parameters.")


def test_nothing_a_folder_or_a_pipe_in_place_of_an_array(array_file):
    array_file[1].unlink()
    assert_rejected(array_file, "is missing")
    array_file[1].mkdir()
    assert_rejected(array_file, "is missing")
    array_file[1].rmdir()
    os.mkfifo(array_file[1])
    assert_rejected(array_file, "is missing")


@pytest.mark.parametrize(
    "array",
    [np.arange(6, dtype=np.float64).reshape(2, 3), np.ones((3, 2), np.float32), np.float32(1), np.ones(6, np.float32)],
    ids=str,
)
def test_array_of_another_shape_or_type(array_file, array):
    np.save(array_file[1], array)
    assert_rejected(array_file, "is not the one that is described")


class Trap:
    def __reduce__(self):
        return os._exit, (99,)


def test_damaged_arrays_and_pickles_are_not_loaded(array_file):
    file = array_file[1]
    file.write_bytes(file.read_bytes()[:-1])
    assert_rejected(array_file, "is damaged")
    objects = np.empty((2, 3), object)
    objects[:] = Trap()
    np.save(file, objects, allow_pickle=True)
    assert_rejected(array_file, "is damaged")


def test_folder_of_arrays_that_is_a_symbolic_link(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    path = tmp_path / "model"
    write(path)
    (path / "arrays").rename(elsewhere)
    (path / "arrays").symlink_to(elsewhere)
    before = sorted(elsewhere.iterdir())
    with pytest.raises(ModelFolderError, match="the description of the model is damaged"):
        ModelFolder(path)
    with pytest.raises(ModelFolderError, match="this is a symbolic link, which is not followed"):
        write(path)
    with pytest.raises(ModelFolderError, match="this is a symbolic link"), lock_model_folder(path):
        pass
    assert sorted(elsewhere.iterdir()) == before


@pytest.mark.parametrize("name", ["model.json", "checkpoint.npz"])
def test_pipes_do_not_block(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ModelFolderError, match=f"{name}: "):
        (ModelFolder if name == "model.json" else InterruptedRun.read)(tmp_path)
