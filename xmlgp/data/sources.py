"""The sources of data sets: each source puts the requested files into a folder.

All sources have two members: `origin`, a name for messages, and `fetch(request)`.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

from xmlgp.data.archives import unpack_file, unpack_zip
from xmlgp.data.download import NotFoundError, download
from xmlgp.errors import FetchError
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import escape

__all__ = ["Archive", "Embedded", "FetchRequest", "Files", "Mirror", "google_drive_address"]

GOOGLE_DRIVE = "drive.usercontent.google.com"


def google_drive_address(identifier):
    """Return the download URL of a file on Google Drive.

    Parameters
    ----------
    identifier : str
        The id in the link of the file.

    Returns
    -------
    str
    """
    # Without `confirm`, files too large for the virus scan get a page that asks for it.
    return f"https://{GOOGLE_DRIVE}/download?id={identifier}&export=download&confirm=t"


@dataclass(frozen=True)
class FetchRequest:
    """The files requested from a source.

    Parameters
    ----------
    files : tuple of DataFile
        The files.
    mirror_folder : str
        Their folder within a mirror of many data sets.
    target : Path
        The folder to put them in, under their names.
    downloads : Path
        A folder for partial downloads, kept after an interruption.
    max_bytes : int
        Maximum size of each file in bytes, compressed or not.
    progress : callable
        Reports bytes; see `xmlgp.runtime.progress`.
    """

    files: tuple
    mirror_folder: str
    target: Path
    downloads: Path
    max_bytes: int
    progress: object = silent

    def download(self, address, name):
        """Download `address` to the file `name` among the downloads and return its path."""
        path = self.downloads / name
        download(address, path, self.max_bytes, self.progress)
        return path

    def unpack(self, paths):
        """Unpack `paths` into the target folder, one for each file, in the order of `files`."""
        for file, path in zip(self.files, paths, strict=True):
            unpack_file(path, self.target / file.name, self.max_bytes, self.progress)


@dataclass(frozen=True)
class Files:
    """Single files on the web.

    Parameters
    ----------
    template : str
        Their URL, with `{file}` in place of the name of each.
    """

    template: str

    @property
    def origin(self):
        """The host."""
        return urlsplit(self.template).hostname

    def fetch(self, request):
        """Download all files before unpacking any, so that an interruption loses no complete file."""
        request.unpack(
            [request.download(self.template.replace("{file}", file.name), file.name) for file in request.files]
        )


@dataclass(frozen=True)
class Archive:
    """A zip archive on the web.

    Parameters
    ----------
    address : str
        Its URL.
    members : dict of str to str
        The member of the archive for each role, "train" and "test".
    """

    address: str
    members: dict[str, str]

    @property
    def origin(self):
        """The host."""
        host = urlsplit(self.address).hostname
        return "Google Drive" if host == GOOGLE_DRIVE else host

    def fetch(self, request):
        """Download the archive and extract the members of the requested files."""
        archive = request.download(self.address, "archive.zip")
        members = {self.members[file.role]: request.target / file.name for file in request.files}
        unpack_zip(archive, members, request.max_bytes, request.progress)


@dataclass(frozen=True)
class Mirror:
    """A copy of many data sets, FOLDER/NAME/train.txt and so on, on disk or on the web; any file may be gzipped.

    Parameters
    ----------
    address : str
        A folder, or a file:, http: or https: URL.
    """

    address: str

    @property
    def origin(self):
        """The folder or URL."""
        return self.address

    def fetch(self, request):
        """Copy or download the files."""
        on_disk = "://" not in self.address or self.address.startswith("file:")
        locate = self._find if on_disk else self._download
        request.unpack([locate(request, file.name) for file in request.files])

    def _download(self, request, name):
        address = f"{self.address.rstrip('/')}/{request.mirror_folder}/{quote(name)}"
        try:
            return request.download(address, name)
        except NotFoundError:
            try:
                return request.download(f"{address}.gz", f"{name}.gz")
            except NotFoundError as error:
                raise FetchError(f"neither {address} nor {name}.gz exists") from error

    def _find(self, request, name):
        folder = Path(self.address)
        if self.address.startswith("file:"):
            parts = urlsplit(self.address)
            if parts.netloc not in ("", "localhost"):
                raise FetchError(f"{escape(self.address)} is on another machine; use file:///FOLDER")
            folder = Path(url2pathname(parts.path))
        path = folder / request.mirror_folder / name
        for candidate in (path, path.with_name(f"{name}.gz")):
            # A pipe or a device may never end.
            if candidate.is_file():
                return candidate
        raise FetchError(f"neither {escape(str(path))} nor {name}.gz exists")


@dataclass(frozen=True)
class Embedded:
    """A data set that xmlgp generates itself.

    Parameters
    ----------
    name : str
        Its name; "toy" is the only one.
    """

    name: str

    @property
    def origin(self):
        """The word "embedded"."""
        return "embedded"

    def fetch(self, request):
        """Generate the data set and write the files."""
        # NumPy and SciPy take long to import, and no other source needs them.
        from xmlgp.data.repository_format import write_dataset
        from xmlgp.data.toy import toy_dataset

        datasets = dict(zip(("train", "test"), toy_dataset(), strict=True))
        for file in request.files:
            write_dataset(request.target / file.name, datasets[file.role])
