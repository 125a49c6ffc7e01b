"""Encoders: models of others that compute an embedding of a text, a block of dense features beside its words.

Static ones, whose embedding is a mean over tokens, are read by model2vec; others, such as transformers, by
sentence-transformers. An encoder is a folder, or the name of one on Hugging Face. Its weights are in safetensors files;
no code and no pickle is read, and nothing is downloaded unless the user asks for it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.cache import file_digest
from xmlgp.errors import SettingsError, XmlgpError
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.threads import core_count
from xmlgp.runtime.untrusted_text import escape
from xmlgp.text.embedding_cache import EmbeddingCache

__all__ = ["Encoder", "open_encoder"]

#: Texts that are encoded at a time, between two updates of the progress.
TEXTS = 256

#: Files that are downloaded: neither code nor pickles are among them.
DOWNLOADED = ["*.json", "*.safetensors", "*.txt", "*.model"]
#: Variants of the same model for other programs, which are left out.
NOT_DOWNLOADED = ["onnx/*", "openvino/*"]

#: The classes of the modules of a static encoder, which model2vec reads.
STATIC = {"StaticEmbedding", "Normalize"}
#: The folders within its folder where its weights may be.
STATIC_FOLDERS = (".", "0_StaticEmbedding")
#: The files that may describe it.
STATIC_CONFIGS = ("config.json", "config_sentence_transformers.json")

#: The files that decide what another encoder computes, besides its weights. Which others there are depends on what has
#: downloaded it.
CONFIGS = {"modules.json", "config.json", "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json"}

#: Earlier versions of sentence-transformers run code that a local model brings.
LEAST_TRANSFORMERS = 6

#: A SHA-256 in hexadecimal digits.
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

    def __init__(self, name: str, fingerprint: str | None = None, width: int | None = None) -> None:
        self.name = name
        self.fingerprint = fingerprint
        self.width = width
        self._source = name
        self._download = False

    def __getstate__(self) -> dict[str, object]:
        # A model names its encoder and does not contain it.
        return {name: value for name, value in self.__dict__.items() if name != "_function"}

    def find(self, source: str | os.PathLike[str] | None = None, download: bool = False) -> None:
        """Read the files from another folder or name, or allow to download them."""
        self._source = os.fspath(source or self.name)
        self._download = download
        self.__dict__.pop("_function", None)

    def encode(self, texts: Sequence[str], cache: bool = False, progress: Progress = silent) -> NDArray[np.float32]:
        """Return the embeddings of texts, N×E in float32; with `cache`, they are stored, and stored ones are used."""
        # Half of a surrogate pair, which JSON can have, is no character.
        contents = [text.encode("utf-8", "replace") for text in texts]
        embeddings = np.empty((len(contents), self.width or 0), np.float32)
        with progress("encoding", total=len(contents), unit=" texts") as bar:
            for start in range(0, len(contents), TEXTS):
                block = contents[start : start + TEXTS]
                digests = [hashlib.sha256(content).digest() for content in block]
                stored = self._cache.read(digests) if cache else {}
                missing = {key: content for key, content in zip(digests, block, strict=True) if key not in stored}
                if missing:
                    computed = self._computed([content.decode() for content in missing.values()])
                    new = dict(zip(missing, computed, strict=True))
                    if cache:
                        self._cache.write(new)
                    stored |= new
                embeddings[start : start + len(block)] = [stored[digest] for digest in digests]
                bar.update(len(block))
        return embeddings

    def _computed(self, texts: list[str]) -> NDArray[np.float32]:
        try:
            embeddings = np.asarray(self._function(texts), np.float32)
        except XmlgpError:
            raise
        except Exception as error:  # those of other packages may raise anything
            raise XmlgpError(f"the encoder {self._source} fails: {_reason(error)}") from None
        width = embeddings.shape[-1] if self.width is None else self.width
        if not width or embeddings.shape != (len(texts), width) or not np.isfinite(embeddings).all():
            raise XmlgpError(f"the encoder {self._source} does not give {width or 'some'} finite numbers for each text")
        return embeddings

    @functools.cached_property
    def _cache(self) -> EmbeddingCache:
        return EmbeddingCache(self.fingerprint or "", self.width or 0)

    @functools.cached_property
    def _function(self) -> Callable[[list[str]], object]:
        """The function from texts to embeddings; SettingsError if it is not there, or another one than before."""
        folder = _folder(self._source, self._download)
        classes = _classes(folder)
        files = _static_files(folder) if classes <= STATIC else _files(folder)
        if not files:
            raise SettingsError(
                f"{self._source} is not an encoder: model2vec or sentence-transformers has saved none with its weights "
                "in safetensors there"
            )
        digest = hashlib.sha256()
        for file in files:
            with open(file, "rb") as stream:
                digest.update(f"{file.relative_to(folder).as_posix()} {file_digest(stream)}\n".encode())
        fingerprint = digest.hexdigest()
        if self.fingerprint not in (None, fingerprint):
            raise SettingsError(
                f"{self._source} is not the encoder {self.name} that the model was trained with: its files are others"
            )
        self.fingerprint = fingerprint
        return _read_static(folder, classes) if classes <= STATIC else _read_transformer(folder)

    def mapping(self) -> dict[str, object]:
        """Return what `from_mapping` needs, as JSON has it."""
        return {"name": self.name, "fingerprint": self.fingerprint, "width": self.width}

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Encoder:
        """Return the encoder that an untrusted mapping names; TypeError, ValueError or LookupError if it names none."""
        name, fingerprint, width = (mapping[key] for key in ("name", "fingerprint", "width"))
        if not (isinstance(name, str) and name and name.isprintable() and type(width) is int and width > 0):
            raise ValueError("this is not the description of an encoder")
        if not (isinstance(fingerprint, str) and FINGERPRINT.fullmatch(fingerprint)):
            raise ValueError("this is not a fingerprint")
        return cls(name, fingerprint, width)


def open_encoder(name: str | os.PathLike[str], download: bool = False) -> Encoder:
    """Return the `Encoder` with a name on Hugging Face or in a folder; SettingsError if there is none."""
    name = os.fspath(name)
    encoder = Encoder(os.path.abspath(name) if os.path.isdir(name) else name)
    if not encoder.name.isprintable():
        raise SettingsError(f"the encoder {escape(name)} has a name that cannot be printed")
    encoder.find(download=download)
    encoder.width = encoder._computed(["text"]).shape[1]
    return encoder


def _folder(source: str, download: bool) -> Path:
    """Return the folder of an encoder, which may be downloaded."""
    if os.path.isdir(source):
        return Path(source)
    hub = _imported("huggingface_hub", "encode")
    files = {"allow_patterns": DOWNLOADED, "ignore_patterns": NOT_DOWNLOADED}
    try:
        return Path(hub.snapshot_download(source, local_files_only=not download, **files))
    except Exception as error:  # of the network, of names, and others
        if download:
            raise XmlgpError(f"the encoder {escape(source)} cannot be downloaded: {_reason(error)}") from None
        raise SettingsError(
            f"there is no encoder {escape(source)}, neither a folder nor in the cache of Hugging Face; `encoder=PATH` "
            "says where it is, and `download=True` downloads it by its name"
        ) from None


def _classes(folder: Path) -> set[str]:
    """Return the names of the classes of the modules of an encoder, none for one of model2vec alone."""
    file = folder / "modules.json"
    if not file.exists():
        return set()
    try:
        # A pipe would be waited for without end.
        content = file.read_bytes() if file.is_file() else b""
        return {module["type"].rpartition(".")[2] for module in json.loads(content)}
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise SettingsError(f"{folder}: modules.json does not list the modules of an encoder") from None


def _static_files(folder: Path) -> list[Path]:
    """Return the files of a static encoder, or none, as model2vec finds them."""
    for subfolder in STATIC_FOLDERS:
        for config in STATIC_CONFIGS:
            files = [folder / config, folder / subfolder / "model.safetensors", folder / subfolder / "tokenizer.json"]
            if all(file.is_file() for file in files):
                return files
    return []


def _files(folder: Path) -> list[Path]:
    """Return the files of another encoder, or none if any of its weights are in no safetensors file."""
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


def _read_static(folder: Path, classes: set[str]) -> Callable[[list[str]], object]:
    # Its tokenizer would start a thread for each core, and that before it is asked.
    os.environ.setdefault("RAYON_NUM_THREADS", str(core_count()))
    model2vec = _imported("model2vec", "encode")
    model = model2vec.StaticModel.from_pretrained(folder, normalize="Normalize" in classes or None)
    return functools.partial(model.encode, use_multiprocessing=False)


def _read_transformer(folder: Path) -> Callable[[list[str]], object]:
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

    def encode(texts: list[str]) -> object:
        torch.set_num_threads(core_count())
        return model.encode(texts, show_progress_bar=False)

    return encode


def _reason(error: Exception) -> str:
    """Return the first line of an error of another package."""
    return escape(str(error).strip().partition("\n")[0] or type(error).__name__)


def _imported(name: str, extra: str) -> ModuleType:
    """Return a module; XmlgpError names the extra that has it if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.replace("_", "-")
        raise XmlgpError(f"this encoder needs {package}: pip install 'xmlgp[{extra}]'") from None
