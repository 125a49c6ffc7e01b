"""Parts of open files are read without moving their position, also where the system has no call for that."""

import sys

import pytest

from xmlgp.runtime.positioned_reads import read_at


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_a_part_is_read_and_the_position_stays(platform, monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(bytes(range(100)))
    monkeypatch.setattr(sys, "platform", platform)
    with open(file, "rb", buffering=0) as stream:
        stream.seek(50)
        assert read_at(stream.fileno(), 10, 20) == bytes(range(20, 30))
        assert read_at(stream.fileno(), 10, 95) == bytes(range(95, 100))
        assert read_at(stream.fileno(), 10, 100) == b""
        assert stream.read(1) == bytes([50])
