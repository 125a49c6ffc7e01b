"""The sources of data sets: where the files of each are found, of which those on the web are downloaded."""

from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from xmlgp.data.download import NotFoundError, download
from xmlgp.errors import FetchError
from xmlgp.runtime.untrusted_text import escape

__all__ = ["Source"]

#: Without `confirm`, files too large for the virus scan get a page that asks for it.
GOOGLE_DRIVE = "https://drive.usercontent.google.com/download?id={}&export=download&confirm=t"


class Source(NamedTuple):
    """One source of a data set, a key of the catalogue and its value.

    "https" are single files on the web, `{file}` in the address stands for their name; "archive" is a zip archive on
    the web, and "drive" one on Google Drive by its id, with the member for each role, "train" and "test"; "mirror" is a
    copy of many data sets, FOLDER/NAME/train.txt and so on, in a folder or on the web, any file of which may be
    gzipped; "embedded" is the data set that xmlgp draws itself.
    """

    kind: str
    address: str
    members: dict | None = None

    @property
    def origin(self):
        """Its name for messages: a host, a folder or URL, or "embedded"."""
        names = {"drive": "Google Drive", "mirror": self.address, "embedded": "embedded"}
        return names.get(self.kind) or urlsplit(self.address).hostname

    def locate(self, entry, file, folder, progress):
        """Return the path of a file of an entry, downloaded to a folder if necessary, and its member or None."""

        def get(address, name):
            download(address, folder / name, entry.max_bytes, progress)
            return folder / name

        match self.kind:
            case "https":
                return get(self.address.replace("{file}", file.name), file.name), None
            case "archive":
                return get(self.address, "archive.zip"), self.members[file.role]
            case "drive":
                return get(GOOGLE_DRIVE.format(self.address), "archive.zip"), self.members[file.role]
            case "mirror":
                return self._in_mirror(f"{entry.mirror_folder}/", (file.name, f"{file.name}.gz"), get), None
            case "embedded":
                return _drawn(folder / file.name, file.role), None

    def _in_mirror(self, folder, names, get):
        if "://" in self.address:
            addresses = [f"{self.address.rstrip('/')}/{folder}{quote(name)}" for name in names]
            for address, name in zip(addresses, names, strict=True):
                try:
                    return get(address, name)
                except NotFoundError:
                    continue
            raise FetchError(f"neither {addresses[0]} nor {names[1]} exists")
        paths = [Path(self.address, folder, name) for name in names]
        for path in paths:
            # A pipe or a device may never end.
            if path.is_file():
                return path
        raise FetchError(f"neither {escape(str(paths[0]))} nor {names[1]} exists")


def _drawn(path, role):
    # NumPy and SciPy take long to import, and no other source needs them.
    from xmlgp.data.repository_format import write_dataset
    from xmlgp.data.toy import toy_dataset

    write_dataset(path, toy_dataset()[role == "test"])
    return path
