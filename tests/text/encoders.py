"""Tiny static encoders for tests, made here: a vector for each word."""

import numpy as np

__all__ = ["WORDS", "make_encoder"]

#: The words of `make_encoder`; it knows no others.
WORDS = [
    "cat",
    "dog",
    "bird",
    "fish",
    "tree",
    "flower",
    "red",
    "green",
    "blue",
    "big",
    "small",
    "old",
    "new",
    "fast",
    "slow",
]


def make_encoder(folder, width=6, seed=0, words=WORDS):
    """Write a static encoder to a folder (Path), as model2vec saves them, and return the folder."""
    from model2vec import StaticModel
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["[UNK]", *words])}, "[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    vectors = np.random.default_rng(seed).normal(size=(len(words) + 1, width)).astype(np.float32)
    StaticModel(vectors, tokenizer).save_pretrained(folder)
    return folder
