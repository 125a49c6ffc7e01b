"""The cache folder follows the environment, and folders of runs do not stay in it."""

from xmlgp.cluster.cache_folder import cache_root, folder_for_run


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("XMLGP_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg/xmlgp"
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "own"))
    assert cache_root() == tmp_path / "own"
    with folder_for_run() as folder:
        assert folder.parent == tmp_path / "own" / "cluster"
    assert not folder.exists()
