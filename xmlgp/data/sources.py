"""Where data sets come from: each source puts the files it is asked for into a folder.

All have the same two members: `origin`, a few words for people, and `obtain(order)`.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

from xmlgp.data.archives import unpack_file, unpack_zip
from xmlgp.data.download import PATIENCE, NotThere, Patience, download, shown
from xmlgp.errors import FetchError
from xmlgp.runtime.progress import silent

__all__ = ["Archive", "Copy", "Embedded", "Files", "Order", "google_drive_address"]

GOOGLE_DRIVE = "drive.usercontent.google.com"


def google_drive_address(identifier):
    """Return the address of a file on Google Drive; `confirm` skips its page about files too large to scan."""
    return f"https://{GOOGLE_DRIVE}/download?id={identifier}&export=download&confirm=t"


@dataclass(frozen=True)
class Order:
    """What a source is asked for.

    Parameters
    ----------
    files : tuple of DataFile
        The files wanted.
    mirror_folder : str
        Their folder within a copy that holds many data sets.
    into : Path
        The folder to put them in, under their names.
    downloads : Path
        A folder for what is being downloaded; it outlives an interruption.
    max_bytes : int
        Bytes that no file, packed or unpacked, may exceed.
    progress : callable
        Told of bytes.
    patience : Patience
        How long downloads wait.
    """

    files: tuple
    mirror_folder: str
    into: Path
    downloads: Path
    max_bytes: int
    progress: object = silent
    patience: Patience = PATIENCE

    def download(self, address, name):
        """Download to the file `name` among the downloads and return its path."""
        path = self.downloads / name
        download(address, path, self.max_bytes, self.progress, self.patience)
        return path

    def unpack(self, paths):
        """Unpack what stands at `paths` as the files wanted, in their order."""
        for file, path in zip(self.files, paths, strict=True):
            unpack_file(path, self.into / file.name, self.max_bytes, self.progress)


@dataclass(frozen=True)
class Files:
    """Single files on the web, at `template` with `{file}` replaced by the name of each."""

    template: str

    @property
    def origin(self):
        """Say where this is."""
        return urlsplit(self.template).hostname

    def obtain(self, order):
        """Download all, then unpack: an interruption loses none that is complete."""
        order.unpack([order.download(self.template.replace("{file}", file.name), file.name) for file in order.files])


@dataclass(frozen=True)
class Archive:
    """A zip archive on the web and, for each role of a file, the member that has it."""

    address: str
    members: dict[str, str]

    @property
    def origin(self):
        """Say where this is."""
        host = urlsplit(self.address).hostname
        return "Google Drive" if host == GOOGLE_DRIVE else host

    def obtain(self, order):
        """Download the archive and extract the members wanted."""
        archive = order.download(self.address, "archive.zip")
        members = {self.members[file.role]: order.into / file.name for file in order.files}
        unpack_zip(archive, members, order.max_bytes, order.progress)


@dataclass(frozen=True)
class Copy:
    """A copy of many data sets, FOLDER/NAME/train.txt and so on, each file perhaps gzipped, in a folder or on the web.

    Parameters
    ----------
    address : str
        A folder, or a file:, http: or https: URL.
    """

    address: str

    @property
    def origin(self):
        """Say where this is."""
        return self.address

    def obtain(self, order):
        """Copy or download the files."""
        on_disk = "://" not in self.address or self.address.startswith("file:")
        find = self._find if on_disk else self._download
        order.unpack([find(order, file.name) for file in order.files])

    def _download(self, order, name):
        address = f"{self.address.rstrip('/')}/{order.mirror_folder}/{quote(name)}"
        try:
            return order.download(address, name)
        except NotThere:
            try:
                return order.download(f"{address}.gz", f"{name}.gz")
            except NotThere as error:
                raise FetchError(f"neither {address} nor {name}.gz is there") from error

    def _find(self, order, name):
        folder = Path(self.address)
        if self.address.startswith("file:"):
            parts = urlsplit(self.address)
            if parts.netloc not in ("", "localhost"):
                raise FetchError(f"{shown(self.address)} names another machine; only file:///FOLDER can be read")
            folder = Path(url2pathname(parts.path))
        path = folder / order.mirror_folder / name
        for candidate in (path, path.with_name(f"{name}.gz")):
            if candidate.is_file():
                return candidate
        raise FetchError(f"neither {shown(str(path))} nor {name}.gz is there")


@dataclass(frozen=True)
class Embedded:
    """The data set `name` that xmlgp draws itself."""

    name: str

    @property
    def origin(self):
        """Say where this is."""
        return "embedded"

    def obtain(self, order):
        """Draw it and write the files wanted."""
        # Only here are NumPy and SciPy needed.
        from xmlgp.data.repository_format import write_dataset
        from xmlgp.data.toy import toy_dataset

        datasets = dict(zip(("train", "test"), toy_dataset(), strict=True))
        for file in order.files:
            write_dataset(order.into / file.name, datasets[file.role])
