"""A fitted vectorizer of scikit-learn in place of the one here, and how a model folder keeps it without code."""

import functools
import io
import json
import zipfile

import numpy as np
import scipy.sparse as sp

from xmlgp.data.dataset import stack
from xmlgp.data.dense_files import expands_too_much
from xmlgp.data.features import Features
from xmlgp.data.names import UNFIT
from xmlgp.errors import ModelFolderError, SettingsError, XmlgpError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.analysis import no_words
from xmlgp.text.documents import Columns
from xmlgp.text.vectorizer_parts import check_parts

__all__ = ["Transformed", "Transformer"]

#: Parameters that are not those of a model: processes that it would start, and a folder of pickles that `fit` reads.
OF_THE_MACHINE = {"n_jobs", "memory"}


class Transformer:
    """Maps texts to D features by a fitted vectorizer of scikit-learn, as such or as skops `stored` it.

    What is stored is untrusted and comes from `source`; it is loaded when the first text needs it. No words are found
    here: `analysis`, `words` and `numbers` are what `xmlgp.text.vectorize` reads.
    """

    #: As those of an `Analysis`.
    analyzer = "word"
    encoder = None

    def __init__(self, D, fitted=None, stored=None, source="the model"):
        self.words = range(D)
        self.numbers = {}
        self.columns = Columns()
        self._source = source
        if fitted is None:
            self.stored = stored
        else:
            self.fitted = fitted

    @property
    def analysis(self):
        """What finds no words."""
        return self

    def function(self):
        """Return a function that lists no words of a text."""
        return no_words

    @functools.cached_property
    def stored(self):
        """The vectorizer as skops writes it (bytes); SettingsError names the code in it, which no folder can hold."""
        name = type(self.fitted).__name__
        skops = _skops(f"to save a model with {type(self.fitted).__name__}")
        try:
            content = skops.dumps(self.fitted)
            untrusted = skops.get_untrusted_types(data=content)
        except Exception as error:
            raise SettingsError(f"{name} cannot be saved: {excerpt(error)}") from None
        if untrusted:
            code = {key: getattr(value, "__qualname__", None) for key, value in self.fitted.get_params().items()}
            classes = {key for key, value in self.fitted.get_params().items() if isinstance(value, type)}
            code = [f"{key}={own}" for key, own in code.items() if own and key not in classes] or untrusted
            raise SettingsError(
                f"{name} cannot be saved, because a model folder holds no code, and it has {excerpt(', '.join(code))}"
            )
        try:
            check_parts(self.fitted)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"{name} cannot be saved, because no model could use it: {error}") from None
        return content

    @functools.cached_property
    def fitted(self):
        """The vectorizer, if all its types are among those that skops trusts; otherwise ModelFolderError."""
        skops = _skops(f"{self._source}: to read text as this model does")
        try:
            with zipfile.ZipFile(io.BytesIO(self.stored)) as archive:
                # What is compressed, or in several members at once, could fill the memory.
                if any(entry.compress_type for entry in archive.infolist()):
                    raise ValueError("it is compressed")
                if sum(entry.file_size for entry in archive.infolist()) > len(self.stored):
                    raise ValueError("its members are longer than the file")
                for entry in archive.infolist():
                    _check_expansion(io.BytesIO(archive.read(entry)))
            found = skops.loads(_without_references(self.stored))
        except Exception as error:
            raise self._unusable(excerpt(error)) from None
        try:
            parts = check_parts(found)
        except Exception as error:
            # A TypeError if what is looked at has values of other types.
            raise self._unusable(str(error) if isinstance(error, ValueError) else excerpt(error)) from None
        for part in parts:
            for name in OF_THE_MACHINE & vars(part).keys():
                setattr(part, name, None)
        return found

    def _unusable(self, reason: str) -> ModelFolderError:
        return ModelFolderError(f"{self._source}: the vectorizer of this model cannot be used: {reason}")

    def feature_names(self):
        """Return the names of the features (list of str), or None if the vectorizer has none that a file can have."""
        try:
            names = [str(name) for name in self.fitted.get_feature_names_out()]
        except Exception:  # those of other packages may raise anything
            return None
        return None if len(names) != len(self.words) or any(map(UNFIT.search, names)) else names

    def features(self, texts):
        """Return the features of texts, B×D, in float32."""
        texts = list(texts)
        fitted = self.fitted
        try:
            found = sp.csr_array(fitted.transform(texts), dtype=np.float32)
            found.check_format(full_check=True)
        except Exception as error:
            raise XmlgpError(f"{self._source}: {type(fitted).__name__} fails: {excerpt(error)}") from None
        if found.shape != (len(texts), len(self.words)) or not np.isfinite(found.data).all():
            raise XmlgpError(
                f"{self._source}: the vectorizer of this model does not give its {len(self.words)} features"
            )
        found.sum_duplicates()
        found.eliminate_zeros()
        return Features(found)


class Transformed:
    """A corpus whose features a `Transformer` has computed: N documents as points, in blocks (`Dataset`).

    `errors` has those of malformed documents, by their places from 0.
    """

    def __init__(self, block):
        self._blocks = [block]
        self.N = block.N
        self.errors = {}

    def add(self, block):
        """Append documents as points."""
        self._blocks.append(block)
        self.N += block.N

    def blocks(self):
        """Yield the documents as points, a `Dataset` at a time."""
        return iter(self._blocks)

    def dataset(self):
        """Return all documents as one `Dataset`."""
        return stack(self._blocks)


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

    def unnumbered(entry: dict) -> dict:
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


def _skops(purpose):
    """Return the module that reads and writes vectorizers without code."""
    try:
        import skops.io
    except ImportError:
        raise XmlgpError(f"{purpose}, install skops: pip install 'xmlgp[text]'") from None
    return skops.io
