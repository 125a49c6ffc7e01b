"""The sources of data sets: each finds the requested files, of which it downloads those that are on the web.

All sources have two members: `origin`, a name for messages, and `locate(entry, file, downloads)`, which returns the
path of a file on disk and the member of the archive that this is, or None.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from xmlgp.data.download import NotFoundError, download
from xmlgp.errors import FetchError
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import escape

__all__ = ["Archive", "Downloads", "Embedded", "Files", "Mirror", "google_drive_address"]

GOOGLE_DRIVE = "drive.usercontent.google.com"


def google_drive_address(identifier):
    """Return the download URL of a file on Google Drive, by the id in its link."""
    # Without `confirm`, files too large for the virus scan get a page that asks for it.
    return f"https://{GOOGLE_DRIVE}/download?id={identifier}&export=download&confirm=t"


class Downloads(NamedTuple):
    """A folder for the downloads of one source, the maximum size of each in bytes, and the progress to report to."""

    folder: Path
    limit: int
    progress: object = silent

    def get(self, address, name):
        """Download `address` to the file `name` of the folder, if it is not there, and return its path."""
        download(address, self.folder / name, self.limit, self.progress)
        return self.folder / name


@dataclass(frozen=True)
class Files:
    """Single files on the web: `template` is their URL, with `{file}` for the name of each."""

    template: str

    @property
    def origin(self):
        """The host."""
        return urlsplit(self.template).hostname

    def locate(self, entry, file, downloads):
        """Download the file."""
        return downloads.get(self.template.replace("{file}", file.name), file.name), None


@dataclass(frozen=True)
class Archive:
    """A zip archive on the web: its URL, and the member for each role, "train" and "test"."""

    address: str
    members: dict[str, str]

    @property
    def origin(self):
        """The host."""
        host = urlsplit(self.address).hostname
        return "Google Drive" if host == GOOGLE_DRIVE else host

    def locate(self, entry, file, downloads):
        """Download the archive, once for all of its members."""
        return downloads.get(self.address, "archive.zip"), self.members[file.role]


@dataclass(frozen=True)
class Mirror:
    """A copy of many data sets, FOLDER/NAME/train.txt and so on, in a folder or on the web; any file may be gzipped."""

    address: str

    @property
    def origin(self):
        """The folder or URL."""
        return self.address

    def locate(self, entry, file, downloads):
        """Find the file in the folder, or download it."""
        names = (file.name, f"{file.name}.gz")
        if "://" not in self.address:
            paths = [Path(self.address, entry.mirror_folder, name) for name in names]
            for path in paths:
                # A pipe or a device may never end.
                if path.is_file():
                    return path, None
            raise FetchError(f"neither {escape(str(paths[0]))} nor {names[1]} exists")
        addresses = [f"{self.address.rstrip('/')}/{entry.mirror_folder}/{quote(name)}" for name in names]
        for address, name in zip(addresses, names, strict=True):
            try:
                return downloads.get(address, name), None
            except NotFoundError:
                continue
        raise FetchError(f"neither {addresses[0]} nor {names[1]} exists")


@dataclass(frozen=True)
class Embedded:
    """A data set that xmlgp generates itself; "toy" is the only one."""

    name: str

    @property
    def origin(self):
        """The word "embedded"."""
        return "embedded"

    def locate(self, entry, file, downloads):
        """Generate the data set and write the file."""
        # NumPy and SciPy take long to import, and no other source needs them.
        from xmlgp.data.repository_format import write_dataset
        from xmlgp.data.toy import toy_dataset

        path = downloads.folder / file.name
        write_dataset(path, toy_dataset()[file.role == "test"])
        return path, None
