"""A fitted vectorizer of scikit-learn, and how a model folder keeps it without code."""

from __future__ import annotations

import functools
import io
import json
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.dense_files import expands_too_much
from xmlgp.data.features import Features
from xmlgp.data.names import UNFIT
from xmlgp.errors import ModelFolderError, SettingsError, XmlgpError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import Columns
from xmlgp.text.vectorizer import StoredVectorizer
from xmlgp.text.vectorizer_parts import check_parts

__all__ = ["FittedVectorizer"]

#: Parameters that are not those of a model: processes that it would start, and a folder of pickles that `fit` reads.
OF_THE_MACHINE = {"n_jobs", "memory"}


class FittedVectorizer:
    """Maps texts to D features by a fitted vectorizer of scikit-learn; a `Vectorizer`.

    It is given as such (`estimator`) or as skops stored it (`content`). What is stored is untrusted and comes from
    `source`; it is loaded when the first text needs it.
    """

    finds_words = True
    grows = False

    def __init__(
        self, D: int, estimator: Any = None, content: bytes | None = None, source: object = "the model"
    ) -> None:
        self.D = D
        self.columns = Columns()
        self._content = content
        self._source = source
        if estimator is not None:
            self.estimator = estimator

    def stored(self) -> StoredVectorizer:
        """Return what skops writes; SettingsError names the code in the vectorizer, which no folder can hold."""
        if self._content is None:
            self._content = _dumped(self.estimator)
        return StoredVectorizer(content=self._content)

    def describe(self) -> str:
        """Return what reads texts."""
        return "by a vectorizer of scikit-learn"

    @functools.cached_property
    def estimator(self) -> Any:
        """The vectorizer, if all its types are among those that skops trusts; otherwise ModelFolderError."""
        skops = _skops(f"{self._source}: to read text as this model does")
        content = self._content or b""
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                # What is compressed, or in several members at once, could fill the memory.
                if any(entry.compress_type for entry in archive.infolist()):
                    raise ValueError("it is compressed")
                if sum(entry.file_size for entry in archive.infolist()) > len(content):
                    raise ValueError("its members are longer than the file")
                for entry in archive.infolist():
                    _check_expansion(io.BytesIO(archive.read(entry)))
            vectorizer = skops.loads(_without_references(content))
        except Exception as error:
            raise self._unusable(excerpt(error)) from None
        try:
            parts = check_parts(vectorizer)
        except Exception as error:
            # A TypeError if what is looked at has values of other types.
            raise self._unusable(str(error) if isinstance(error, ValueError) else excerpt(error)) from None
        for part in parts:
            for name in OF_THE_MACHINE & vars(part).keys():
                setattr(part, name, None)
        return vectorizer

    def _unusable(self, reason: str) -> ModelFolderError:
        return ModelFolderError(f"{self._source}: the vectorizer of this model cannot be used: {reason}")

    @property
    def words(self) -> list[str] | None:
        """The names of the features, or None if the vectorizer has none that a file can have."""
        try:
            names = [str(name) for name in self.estimator.get_feature_names_out()]
        except Exception:  # those of other packages may raise anything
            return None
        return None if len(names) != self.D or any(map(UNFIT.search, names)) else names

    def features(self, texts: Sequence[str]) -> Features:
        """Return the features of texts, B×D, in float32."""
        estimator = self.estimator
        try:
            matrix = csr_array(estimator.transform(texts), dtype=np.float32)
            matrix.check_format(full_check=True)
        except Exception as error:
            raise XmlgpError(f"{self._source}: {type(estimator).__name__} fails: {excerpt(error)}") from None
        if matrix.shape != (len(texts), self.D) or not np.isfinite(matrix.data).all():
            raise XmlgpError(f"{self._source}: the vectorizer of this model does not give its {self.D} features")
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return Features(matrix)


def _dumped(estimator: Any) -> bytes:
    """Return a vectorizer of scikit-learn as skops writes it."""
    name = type(estimator).__name__
    skops = _skops(f"to save a model with {name}")
    try:
        content: bytes = skops.dumps(estimator)
        untrusted = skops.get_untrusted_types(data=content)
    except Exception as error:
        raise SettingsError(f"{name} cannot be saved: {excerpt(error)}") from None
    if untrusted:
        functions = {
            key: getattr(value, "__qualname__", None)
            for key, value in estimator.get_params().items()
            if not isinstance(value, type)
        }
        code = [f"{key}={function}" for key, function in functions.items() if function] or untrusted
        raise SettingsError(
            f"{name} cannot be saved, because a model folder holds no code, and it has {excerpt(', '.join(code))}"
        )
    try:
        check_parts(estimator)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{name} cannot be saved, because no model could use it: {error}") from None
    return content


def _check_expansion(file: io.BytesIO) -> None:
    """Raise ValueError if a file within that of a vectorizer is a .npz file, of a sparse matrix, that is too large."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            if expands_too_much(archive, file.getbuffer().nbytes):
                raise ValueError("a matrix in it expands too much")


def _without_references(content: bytes) -> bytes:
    """Return what skops wrote, which has each value in full, so that no part can stand for parts that stand for others.

    `__id__` is the number of a value, by which a later one could refer to it; words of a vocabulary have no numbers.
    """

    def unnumbered(entry: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(entry.get("__id__", {}), dict):
            del entry["__id__"]
        return entry

    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(stream, "w") as copy:
        for name in dict.fromkeys(archive.namelist()):
            member = archive.read(name)
            if name == "schema.json":
                member = json.dumps(json.loads(member, object_hook=unnumbered)).encode()
            copy.writestr(name, member)
    return stream.getvalue()


def _skops(purpose: str) -> Any:
    """Return the module that reads and writes vectorizers without code."""
    try:
        import skops.io
    except ImportError:
        raise XmlgpError(f"{purpose}, install skops: pip install 'xmlgp[text]'") from None
    return skops.io
