"""The cache folder follows the environment, and folders of runs do not stay in it."""

import os
import time

from xmlgp.runtime.cache_folder import UNUSED_SECONDS, cache_root, folder_for_run


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XMLGP_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_root() == tmp_path / "home/.cache/xmlgp"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_root() == tmp_path / "home/.cache/xmlgp"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg/xmlgp"
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "own"))
    assert cache_root() == tmp_path / "own"


def test_folders_that_killed_processes_left_are_removed(monkeypatch, tmp_path):
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path))
    for name, age in ("recent", UNUSED_SECONDS - 60), ("unused", UNUSED_SECONDS + 60):
        (tmp_path / "cluster" / name).mkdir(parents=True)
        os.utime(tmp_path / "cluster" / name, (time.time() - age,) * 2)
    with folder_for_run() as folder:
        assert {entry.name for entry in (tmp_path / "cluster").iterdir()} == {"recent", folder.name}
    assert not folder.exists()
