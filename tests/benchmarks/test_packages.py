"""Data sets made from the index of a small, invented package archive."""

import itertools
import json

import numpy as np
from click.testing import CliRunner
from packages import Example, collect, main, read_index, split

from xmlgp.data.repository_format import read_dataset

PACKAGES = """\
Package: viewer
Description-md5: 1a
Depends: libc6 (>= 2.34), libdraw1 (>= 1.0) | libdraw0, python3:any, libmap2[amd64]
Tag: role::program, use::viewing,
 works-with::{image,text}

Package: libdraw1
Description-md5: 2b
Tag: role::shared-lib

Package: viewer
Description-md5: 2b
Tag: role::documentation


Package: silent
Description-md5: 9f
Tag: role::program
"""

TRANSLATION = """\
Package: viewer
Description-md5: 1a
Description-en: Viewer of pictures
 It is a viewer for C++ pictures.
 .
 And for maps.

Package: libdraw1
Description-md5: 2b
Description-en: drawing library
"""

VIEWER = ["viewer", "pictures", "viewer", "c++", "pictures", "maps"]


def index(tmp_path, text, name="index"):
    path = tmp_path / name
    path.write_text(text)
    return path


def archive(count):
    """Return the index files of packages of two kinds, which one word distinguishes."""
    kinds = [("sound", "audio player"), ("text", "word processor")]
    packages, translation = [], []
    for i in range(count):
        kind, words = kinds[i % 2]
        about = f"Package: p{i:02}\nDescription-md5: {i}\n"
        packages.append(f"{about}Depends: lib{kind}\nTag: works-with::{kind}\n")
        translation.append(f"{about}Description-en: {words}\n {words} number n{i}\n")
    return "\n".join(packages), "\n".join(translation)


def test_an_index_gives_three_data_sets(tmp_path):
    sets = collect(*(read_index(index(tmp_path, text, str(i))) for i, text in enumerate([PACKAGES, TRANSLATION])))
    tags = {"role::program", "use::viewing", "works-with::image", "works-with::text"}
    about = "Viewer of pictures It is a viewer for C++ pictures. And for maps."
    drawing = Example(["drawing", "library"], {"role::shared-lib"}, "libdraw1", "drawing library")
    assert sets == {
        "tags": [drawing, Example(VIEWER, tags, "viewer", about)],
        "shorttags": [drawing, Example(["viewer", "pictures"], tags, "viewer", "Viewer of pictures")],
        "deps": [Example([*VIEWER, "viewer"], {"libdraw1", "python3", "libmap2"}, "viewer", f"{about} viewer")],
    }


def test_rare_words_and_unseen_labels_are_dropped():
    examples = [Example(["b", "a", "b", f"own{i}"], {"y", "x"}) for i in range(7)] + [Example(["a"], {"rare"})]
    # With this seed the rare word is in a test point.
    seed = next(seed for seed in itertools.count() if np.random.default_rng(seed).permutation(8)[-1] == 7)
    (train, training), (test, tested) = split(examples, np.random.default_rng(seed))
    assert [len(training), tested] == [6, [example for example in examples[:7] if example not in training]]
    assert train.features.toarray().tolist() == [[1, 2]] * 6
    assert train.labels.toarray().tolist() == [[True, True]] * 6
    # One of the two test points has no label that occurs in training, so it is dropped.
    assert test.features.toarray().tolist() == [[1, 2]]
    assert test.labels.toarray().tolist() == [[True, True]]


def run(tmp_path, texts, *options):
    files = [index(tmp_path, text, name) for name, text in zip(("packages", "translation"), texts, strict=True)]
    arguments = ["--packages", files[0], "--translation", files[1], tmp_path / "out", *options]
    return CliRunner().invoke(main, list(map(str, arguments)))


def written(tmp_path):
    return {path.relative_to(tmp_path): path.read_bytes() for path in sorted(tmp_path.glob("out/*/*"))}


def test_files_can_be_read_and_depend_only_on_the_packages_and_the_seed(tmp_path):
    texts = archive(20)
    result = run(tmp_path, texts)
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 4
    for name, features in ("tags", 5), ("shorttags", 4), ("deps", 5):
        train, test = (read_dataset(tmp_path / "out" / name / f"{part}.txt") for part in ("train", "test"))
        sizes = train.N, test.N, train.D, train.K
        assert sizes == (15, 5, features, 2)
        # Features and labels are in alphabetical order: audio and sound first.
        assert np.array_equal(train.features.toarray()[:, 0] > 0, train.labels.toarray()[:, 0])
        corpus = [json.loads(line) for line in (tmp_path / "out" / name / "train.jsonl").read_text().splitlines()]
        assert ["audio" in document["text"] for document in corpus] == train.labels.toarray()[:, 0].tolist()
        assert all(len(document["labels"]) == 1 for document in corpus)
    files = written(tmp_path)
    reversed_order = ["\n\n".join(reversed(text.strip().split("\n\n"))) + "\n" for text in texts]
    run(tmp_path, reversed_order)
    assert written(tmp_path) == files
    run(tmp_path, texts, "--seed", "1")
    assert written(tmp_path) != files
