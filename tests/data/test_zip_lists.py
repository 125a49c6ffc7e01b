"""Archives read without taking a list of members of any size."""

import io
import zipfile

import pytest

from xmlgp.data.zip_lists import LARGEST_LIST, SparingReader


def archive(tmp_path, count, comment=b""):
    path = tmp_path / "some.zip"
    with zipfile.ZipFile(path, "w") as written:
        written.writestr("content", b"x" * (2 * LARGEST_LIST))
        for number in range(count):
            written.writestr(f"{number:200}", b"")
        written.comment = comment
    return path


def test_archives_are_read_as_zipfile_reads_them(tmp_path):
    path = archive(tmp_path, 20, comment=b"c" * 65_535)
    with zipfile.ZipFile(path) as expected, SparingReader(io.FileIO(path)) as stream:
        found = zipfile.ZipFile(stream)
        assert found.namelist() == expected.namelist()
        assert found.comment == expected.comment
        stream.trust()
        assert found.read("content") == expected.read("content")


def test_a_list_that_is_too_long_is_refused(tmp_path):
    path = archive(tmp_path, LARGEST_LIST // 200)
    with SparingReader(io.FileIO(path)) as stream, pytest.raises(ValueError, match="list of members is too long"):
        zipfile.ZipFile(stream)


def test_until_it_is_trusted_it_reads_no_more_than_a_list_has(tmp_path):
    path = archive(tmp_path, 1)
    with SparingReader(io.FileIO(path)) as stream:
        with pytest.raises(ValueError, match="too long"):
            stream.read(LARGEST_LIST + 1)
        assert len(stream.read()) < LARGEST_LIST
        stream.trust()
        assert len(stream.read(LARGEST_LIST + 1)) == LARGEST_LIST + 1
