"""The files beside the rows of a vectorized corpus: refused in one sentence, or kept by a model as they are."""

import shutil

from hypothesis import strategies as st

from tests.fuzzing.mangling import Sample, mangled
from tests.fuzzing.model_folders import TOKENS, rewritten
from tests.fuzzing.text_files import attempted
from tests.inputs.reading import read_training
from tests.text.corpora import vectorized_by
from xmlgp.data.lines import LineReader
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.text.analysis import Analysis
from xmlgp.text.data_folder import TRAIN, write_folder
from xmlgp.text.documents import CorpusOptions
from xmlgp.text.names import FEATURES, LABELS, VECTORIZER
from xmlgp.text.word_counts import WordCounts

__all__ = ["VectorizerFiles"]

CORPUS = 'title,tags\nthe cat,a;機械\n"dog, Zürich",b c\n'.encode()

OWN_TOKENS = [
    *TOKENS, b'"char"', b'"char-wb"', b'"word"', b"[1, 2]", b"[2, 1]", b"[1, 100]", b"[1, 101]", b"[true, true]",
    b'"a\\tb"', b'"text"', b'["a", "a"]', b'["\\ud800"]', b'"columns": {"text": ["a"]}, ', b'"separator": "", ',
]  # fmt: skip
NAME_TOKENS = [b"cat\n", b"\n", b"\x1b[2J", "\u009b".encode(), b"\r\n", b"dog", " é".encode(), b"\xff", b"\xef\xbb\xbf"]


class VectorizerFiles:
    """The names of features and labels, and the description of a vectorizer."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "corpus.csv").write_bytes(CORPUS)
        with open(folder / "corpus.csv", "rb") as stream:
            options = CorpusOptions(("title",), ("tags",))
            vectorizer = WordCounts(Analysis("char-wb", 2, 3), [], options.columns())
            found = vectorized_by(LineReader(stream, "corpus.csv"), vectorizer, options=options)
        write_folder(folder / "whole", {TRAIN: found})
        contents = {name: (folder / "whole" / name).read_bytes() for name in (VECTORIZER, FEATURES, LABELS)}
        changed = st.one_of(
            *[rewritten(contents[VECTORIZER]).map(lambda content: {VECTORIZER: content})] * 2,
            mangled([contents[VECTORIZER]], OWN_TOKENS).map(lambda content: {VECTORIZER: content}),
            mangled([contents[FEATURES]], NAME_TOKENS).map(lambda content: {FEATURES: content}),
            mangled([contents[LABELS]], NAME_TOKENS).map(lambda content: {LABELS: content}),
            st.sampled_from([FEATURES, LABELS, VECTORIZER]).map(lambda name: {name: None}),
        )
        self.samples = changed.map(lambda files: Sample("whole", files))

    def check(self, sample):
        """Read the folder, and keep its names in a model; return whether it was read."""
        copy, model = self.folder / "copy", self.folder / "model"
        shutil.copytree(self.folder / sample.original, copy)
        for name, content in sample.files.items():
            (copy / name).unlink()
            if content is not None:
                (copy / name).write_bytes(content)
        try:
            notes = []
            found, _ = attempted(lambda: read_training(str(copy / TRAIN), cache=False, note=notes.append))
            if found is None:
                return False
            assert notes == [] or not (copy / VECTORIZER).exists()
            self._keep(model, found)
            return True
        finally:
            shutil.rmtree(copy)
            shutil.rmtree(model, ignore_errors=True)

    def _keep(self, model, found):
        sizes = dict(zip("NDK", found.dataset.shape, strict=True)) | {"fingerprint": ""}
        ModelFolder.write(
            model, settings=MLGPFSettings(), stage="preprocessed", data=sizes, arrays={}, names=found.names
        )
        kept = ModelFolder(model).names
        assert kept[:2] == found.names[:2]
        assert (kept.vectorizer is None) == (found.names.vectorizer is None)
        if kept.vectorizer is not None:
            for name in "analysis", "columns", "words":
                assert getattr(kept.vectorizer, name) == getattr(found.names.vectorizer, name)
            texts = ["the cat and the dog", "", "Zürich 機械"]
            one, other = (names.vectorizer.features(texts).sparse for names in (kept, found.names))
            assert (one != other).nnz == 0
            assert one.shape == (3, sizes["D"])
