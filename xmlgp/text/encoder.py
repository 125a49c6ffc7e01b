"""Encoders: models of others that compute an embedding of a text, a block of dense features beside its words.

Static ones, whose embedding is a mean over tokens, are read by model2vec; others, such as transformers, by
sentence-transformers. An encoder is a folder, or the name of one on Hugging Face. Its weights are in safetensors files;
no code and no pickle is read, and nothing is downloaded unless the user asks for it.
"""

import functools
import hashlib
import json
import os
import re
from pathlib import Path

import numpy as np

from xmlgp.data.cache import file_digest
from xmlgp.errors import SettingsError, XmlgpError
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import core_count
from xmlgp.runtime.untrusted_text import escape
from xmlgp.text.embedding_cache import EmbeddingCache

__all__ = ["Encoder", "open_encoder"]

#: Texts that are encoded at a time, between two updates of the progress.
TEXTS = 256

#: Files that are downloaded: neither code nor pickles are among them.
DOWNLOADED = ["*.json", "*.safetensors", "*.txt", "*.model"]
NOT_DOWNLOADED = ["onnx/*", "openvino/*"]

#: The classes of the modules of a static encoder, which model2vec reads, and where its files are.
STATIC = {"StaticEmbedding", "Normalize"}
STATIC_FOLDERS = (".", "0_StaticEmbedding")
STATIC_CONFIGS = ("config.json", "config_sentence_transformers.json")

#: The files that decide what another encoder computes, besides its weights. Which others there are depends on what has
#: downloaded it.
CONFIGS = {"modules.json", "config.json", "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json"}

#: Earlier versions of sentence-transformers run code that a local model brings.
LEAST_TRANSFORMERS = 6

FINGERPRINT = re.compile("[0-9a-f]{64}")


class Encoder:
    """Computes embeddings of E numbers; its files are read when the first text needs them.

    Attributes
    ----------
    name : str
        The name on Hugging Face, or the absolute path of the folder.
    fingerprint : str
        SHA-256 of the files that decide what it computes.
    width : int
        E.
    """

    def __init__(self, name, fingerprint=None, width=None):
        self.name = name
        self.fingerprint = fingerprint
        self.width = width
        self._place = name
        self._download = False

    def __getstate__(self):
        # A model names its encoder and does not contain it.
        return {name: value for name, value in self.__dict__.items() if name != "_function"}

    def find(self, place=None, download=False):
        """Read the files from another place, a folder or a name, or allow to download them."""
        self._place = os.fspath(place or self.name)
        self._download = download
        self.__dict__.pop("_function", None)

    def encode(self, texts, cache=False, progress=silent):
        """Return the embeddings of texts, N×E in float32; with `cache`, they are stored, and stored ones are used."""
        # Half of a surrogate pair, which JSON can have, is no character.
        texts = [text.encode("utf-8", "replace") for text in texts]
        found = np.empty((len(texts), self.width), np.float32)
        with progress("encoding", total=len(texts), unit=" texts") as bar:
            for start in range(0, len(texts), TEXTS):
                part = texts[start : start + TEXTS]
                digests = [hashlib.sha256(text).digest() for text in part]
                known = self._cache.read(digests) if cache else {}
                new = {digest: text for digest, text in zip(digests, part, strict=True) if digest not in known}
                if new:
                    computed = self._computed([text.decode() for text in new.values()])
                    new = dict(zip(new, computed, strict=True))
                    if cache:
                        self._cache.write(new)
                found[start : start + len(part)] = [(known | new)[digest] for digest in digests]
                bar.update(len(part))
        return found

    def _computed(self, texts):
        try:
            found = np.asarray(self._function(texts), np.float32)
        except XmlgpError:
            raise
        except Exception as error:  # those of other packages may raise anything
            raise XmlgpError(f"the encoder {self._place} fails: {_reason(error)}") from None
        width = found.shape[-1] if self.width is None else self.width
        if not width or found.shape != (len(texts), width) or not np.isfinite(found).all():
            raise XmlgpError(f"the encoder {self._place} does not give {width or 'some'} finite numbers for each text")
        return found

    @functools.cached_property
    def _cache(self) -> EmbeddingCache:
        return EmbeddingCache(self.fingerprint, self.width)

    @functools.cached_property
    def _function(self):
        """The function from texts to embeddings; SettingsError if it is not there, or another one than before."""
        folder = _found(self._place, self._download)
        classes = _classes(folder)
        files = _static_files(folder) if classes <= STATIC else _files(folder)
        if not files:
            raise SettingsError(
                f"{self._place} is not an encoder: model2vec or sentence-transformers has saved none with its weights "
                "in safetensors there"
            )
        digest = hashlib.sha256()
        for file in files:
            with open(file, "rb") as stream:
                digest.update(f"{file.relative_to(folder).as_posix()} {file_digest(stream)}\n".encode())
        fingerprint = digest.hexdigest()
        if self.fingerprint not in (None, fingerprint):
            raise SettingsError(
                f"{self._place} is not the encoder {self.name} that the model was trained with: its files are others"
            )
        self.fingerprint = fingerprint
        return _read_static(folder, classes) if classes <= STATIC else _read_transformer(folder)

    def mapping(self):
        """Return what `from_mapping` needs, as JSON has it."""
        return {"name": self.name, "fingerprint": self.fingerprint, "width": self.width}

    @classmethod
    def from_mapping(cls, mapping):
        """Return the encoder that an untrusted mapping names; TypeError, ValueError or LookupError if it names none."""
        name, fingerprint, width = (mapping[key] for key in ("name", "fingerprint", "width"))
        if not (name and isinstance(name, str) and name.isprintable() and type(width) is int and width > 0):
            raise ValueError("this is not the description of an encoder")
        if not FINGERPRINT.fullmatch(fingerprint):
            raise ValueError("this is not a fingerprint")
        return cls(name, fingerprint, width)


def open_encoder(name, download=False):
    """Return the `Encoder` with a name on Hugging Face or in a folder; SettingsError if there is none."""
    name = os.fspath(name)
    encoder = Encoder(os.path.abspath(name) if os.path.isdir(name) else name)
    if not encoder.name.isprintable():
        raise SettingsError(f"the encoder {escape(name)} has a name that cannot be printed")
    encoder.find(download=download)
    encoder.width = encoder._computed(["text"]).shape[1]
    return encoder


def _found(place, download):
    """Return the folder (Path) of an encoder, which may be downloaded."""
    if os.path.isdir(place):
        return Path(place)
    hub = _imported("huggingface_hub", "encode")
    files = {"allow_patterns": DOWNLOADED, "ignore_patterns": NOT_DOWNLOADED}
    try:
        return Path(hub.snapshot_download(place, local_files_only=not download, **files))
    except Exception as error:  # of the network, of names, and others
        if download:
            raise XmlgpError(f"the encoder {escape(place)} cannot be downloaded: {_reason(error)}") from None
        raise SettingsError(
            f"there is no encoder {escape(place)}, neither a folder nor in the cache of Hugging Face; `encoder=PATH` "
            "says where it is, and `download=True` downloads it by its name"
        ) from None


def _classes(folder):
    """Return the names of the classes of the modules of an encoder (set), none for one of model2vec alone."""
    file = folder / "modules.json"
    if not file.exists():
        return set()
    try:
        # A pipe would be waited for without end.
        content = file.read_bytes() if file.is_file() else b""
        return {module["type"].rpartition(".")[2] for module in json.loads(content)}
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise SettingsError(f"{folder}: modules.json does not list the modules of an encoder") from None


def _static_files(folder):
    """Return the files of a static encoder (list of Path), or none, as model2vec finds them."""
    for place in STATIC_FOLDERS:
        for config in STATIC_CONFIGS:
            files = [folder / config, folder / place / "model.safetensors", folder / place / "tokenizer.json"]
            if all(file.is_file() for file in files):
                return files
    return []


def _files(folder):
    """Return the files of another encoder (list of Path), or none if any of its weights are in no safetensors file."""
    files = sorted(
        file
        for file in folder.rglob("*")
        if (file.name in CONFIGS or file.suffix == ".safetensors") and file.is_file()
        # Variants of the same model for other programs.
        if file.relative_to(folder).parts[0] not in ("onnx", "openvino")
    )
    weights = {file.parent for file in files if file.suffix == ".safetensors"}
    pickled = {file.parent for file in folder.rglob("pytorch_model*.bin")}
    return files if weights and pickled <= weights else []


def _read_static(folder, classes):
    # Its tokenizer would start a thread for each core, and that before it is asked.
    os.environ.setdefault("RAYON_NUM_THREADS", str(core_count()))
    model2vec = _imported("model2vec", "encode")
    model = model2vec.StaticModel.from_pretrained(folder, normalize="Normalize" in classes or None)
    return functools.partial(model.encode, use_multiprocessing=False)


def _read_transformer(folder):
    library = _imported("sentence_transformers", "encode-transformers")
    if int(library.__version__.split(".")[0]) < LEAST_TRANSFORMERS:
        raise XmlgpError(
            f"{folder} needs sentence-transformers {LEAST_TRANSFORMERS} or later, which runs no code of it"
        )
    import torch
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    model = library.SentenceTransformer(
        str(folder), trust_remote_code=False, local_files_only=True, model_kwargs={"use_safetensors": True}
    )

    def function(texts):
        torch.set_num_threads(core_count())
        return model.encode(texts, show_progress_bar=False)

    return function


def _reason(error):
    """Return the first line of an error of another package."""
    return escape(str(error).strip().partition("\n")[0] or type(error).__name__)


def _imported(name, extra):
    """Return a module; XmlgpError names the extra that has it if it is not installed."""
    try:
        return __import__(name)
    except ImportError:
        package = name.replace("_", "-")
        raise XmlgpError(f"this encoder needs {package}: pip install 'xmlgp[{extra}]'") from None
