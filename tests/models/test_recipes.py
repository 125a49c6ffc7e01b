"""Recipes: which settings override which, and the messages for mistakes in the catalogue."""

import copy

import pytest

from xmlgp.data.catalogue import load_catalogue
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.table import DEFAULT_RECIPE, resolve
from xmlgp.runtime.errors import CatalogueError, SettingsError

CATALOGUE = """
datasets:
  known:
    title: a data set that papers report on
    shape: {N: 50, N_test: 5, D: 20, K: 7}
    propensity: {A: 0.55, B: 1.5}
    files: {train: {}, test: {}}
    recipes:
      S: {basis_size: 11, epochs: 12}
      special: {epochs: 13}
      T: {iterations: 14}
recipes:
  default:
    settings: {factors: 21}
  plain:
    settings: {factors: 31, epochs: 32, seed: 33}
  paper:
    paper: S
    settings: {factors: 41, epochs: 42, basis_size: 43}
  special:
    paper: S
    settings: {factors: 51, epochs: 52, basis_size: 53}
  papers:
    paper: [S, L]
    settings: {factors: 61}
  topics:
    paper: T
    settings: {model: bmlpl, topics: 71, seed: 72}
  both: {settings: {model: bmlpl, topics: 3, factors: 4}}
  unknown: {settings: {model: [mlgpf]}}
  misspelt: {settings: {factor: 3}}
  excessive: {settings: {factors: 0}}
  text: just text
  hollow: {paper: S}
  listed: {settings: [factors, 3]}
"""
#: The catalogue of the package.
PAPERS = load_catalogue()

KNOWN, UNKNOWN = (50, 20, 7), (51, 20, 7)


def with_defaults(**chosen):
    """Return settings with the defaults for the shape of data with few labels."""
    return MLGPFSettings(**{"inducing": "features", "inducing_start": "rows", "factors": 100} | chosen)


@pytest.fixture
def catalogue(tmp_path):
    return written(tmp_path, CATALOGUE)


def written(tmp_path, text):
    file = tmp_path / "catalogue.yaml"
    file.write_text(text)
    return load_catalogue(file)


@pytest.mark.parametrize(
    ("name", "shape", "chosen", "expected"),
    [
        ("plain", UNKNOWN, {}, {"factors": 31, "epochs": 32, "seed": 33}),
        ("plain", KNOWN, {}, {"factors": 31, "epochs": 32, "seed": 33}),
        # Settings of a paper for a data set, then those of a recipe for it, then options.
        ("paper", KNOWN, {}, {"factors": 41, "epochs": 12, "basis_size": 11}),
        ("paper", UNKNOWN, {}, {"factors": 41, "epochs": 42, "basis_size": 43}),
        ("special", KNOWN, {}, {"factors": 51, "epochs": 13, "basis_size": 11}),
        ("special", KNOWN, {"epochs": 1, "seed": 3}, {"factors": 51, "epochs": 1, "basis_size": 11, "seed": 3}),
        # A malformed paper has no effect.
        ("papers", KNOWN, {}, {"factors": 61}),
    ],
)
def test_what_is_more_special_overrides_the_rest(catalogue, name, shape, chosen, expected):
    before = copy.deepcopy((catalogue.recipes, catalogue.entries["known"].recipes))
    settings, entry = resolve(catalogue, name, shape, chosen)
    assert settings == with_defaults(**expected)
    assert (catalogue.recipes, catalogue.entries["known"].recipes) == before
    # The data set is identified by its shape.
    assert (entry and entry.name) == ("known" if shape == KNOWN else None)


@pytest.mark.parametrize(
    ("name", "chosen", "message"),
    [
        ("s-linear", {}, "s-linear is not a recipe; there are both, default, "),
        ("text", {}, "CATALOGUE: recipe text must have settings"),
        ("hollow", {}, "CATALOGUE: recipe hollow must have settings"),
        ("listed", {}, "CATALOGUE: recipe listed must have settings"),
        ("misspelt", {}, "recipe misspelt: factor is not a setting"),
        ("excessive", {}, "recipe excessive: factors is 0"),
        ("topics", {"model": "mlgpf"}, "recipe topics is of the model bmlpl, not of mlgpf"),
        ("plain", {"model": "bmlpl", "topics": 3}, "recipe plain is of the model mlgpf, not of bmlpl"),
        ("unknown", {"model": "mlgpf"}, "recipe unknown is of the model ['mlgpf'], not of mlgpf"),
        ("unknown", {}, "recipe unknown: model is ['mlgpf'], but must be one of mlgpf, bmlpl, gpc"),
        ("both", {}, "recipe both: factors is a setting of mlgpf, not of bmlpl"),
        (None, {"topics": 3}, "recipe default: topics is a setting of bmlpl, not of mlgpf"),
        (None, {"model": "bmlpl", "topics": 0}, "model bmlpl: topics is 0, but must be an integer from 1 to"),
    ],
)
def test_what_is_refused(catalogue, name, chosen, message):
    with pytest.raises(SettingsError) as caught:
        resolve(catalogue, name, KNOWN, chosen)
    assert str(caught.value).startswith(message.replace("CATALOGUE", str(catalogue.path)))


def test_a_chosen_setting_takes_the_place_of_one_that_is_not_allowed(catalogue):
    assert resolve(catalogue, "excessive", KNOWN, {"factors": 3})[0] == with_defaults(factors=3)


def test_the_defaults_of_the_model_hold_without_a_recipe(tmp_path, catalogue):
    for chosen in ({}, {"model": "mlgpf"}):
        settings, entry = resolve(catalogue, None, KNOWN, chosen)
        assert (settings, entry.name) == (with_defaults(factors=21), "known")
    assert resolve(catalogue, None, KNOWN, {"model": "bmlpl", "seed": 3})[0] == BMLPLSettings(seed=3)
    other = written(tmp_path, "datasets: {}\nrecipes: {default: {settings: {model: bmlpl, topics: 5}}}\n")
    assert resolve(other, None, KNOWN, {})[0] == BMLPLSettings(topics=5)
    assert resolve(other, None, KNOWN, {"model": "mlgpf"})[0] == with_defaults()
    # A catalogue needs no default recipe.
    assert resolve(written(tmp_path, "datasets: {}\n"), DEFAULT_RECIPE, UNKNOWN, {})[0] == with_defaults()


def test_a_file_is_a_recipe_of_its_own(tmp_path, catalogue):
    file = tmp_path / "mine.yaml"
    file.write_text("settings: {model: bmlpl, topics: 5}\n")
    for name in (file, str(file)):
        # Neither the default recipe nor those of the data set matter.
        assert resolve(catalogue, name, KNOWN, {"seed": 2}) == (BMLPLSettings(topics=5, seed=2), None)
    with pytest.raises(SettingsError, match=r"mine\.yaml is of the model bmlpl, not of mlgpf$"):
        resolve(catalogue, file, KNOWN, {"model": "mlgpf"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("settings: {factors: 0}", "recipe FILE: factors is 0, but must be an integer"),
        ("settings: {factor: 3}", "recipe FILE: factor is not a setting; did you mean factors?"),
        ("settings: [factors]", "FILE: a recipe must have settings"),
        ("factors: 3", "FILE: a recipe must have settings"),
        ("settings: !!python/object/apply:os.getcwd []", "FILE: this is not YAML: could not determine a constructor"),
        ("settings: {", "FILE: this is not YAML: "),
        (None, "FILE: the file cannot be read (No such file or directory)"),
    ],
)
def test_mistakes_in_a_recipe_file_are_named(tmp_path, catalogue, content, message):
    file = tmp_path / "mine.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises((CatalogueError, SettingsError)) as caught:
        resolve(catalogue, file, UNKNOWN, {})
    assert str(caught.value).startswith(message.replace("FILE", str(file)))


def test_every_recipe_of_the_catalogue_is_valid_on_every_data_set(monkeypatch):
    monkeypatch.delenv("XMLGP_CATALOGUE", raising=False)
    catalogue = load_catalogue()
    shapes = [(entry.shape.N, entry.shape.D, entry.shape.K) for entry in catalogue.entries.values()]
    for name in {DEFAULT_RECIPE, *catalogue.recipes}:
        for shape in [(1, 1, 1), *shapes]:
            resolve(catalogue, name, shape, {})


@pytest.mark.parametrize("name", ["L-LR", "L-SE", "L-SE+LR", "L-SE-F"])
@pytest.mark.parametrize(("shape", "factors"), [((4880, 1836, 159), 159), ((12920, 500, 983), 100), (UNKNOWN, 100)])
def test_the_recipes_of_L_have_the_sizes_and_the_model_of_the_paper(name, shape, factors):
    settings, _ = resolve(PAPERS, name, shape, {})
    assert (settings.factor_count, settings.inducing_count) == (factors, 200)
    # Section 5 of the paper.
    assert (settings.posterior, settings.ard, settings.nodes, settings.negatives) == ("cholesky", True, 10, None)
    assert (settings.weighting, settings.ranking, settings.inducing_fixed) == ("unit", "utility", name == "L-SE-F")
    # The paper has neither.
    assert (settings.label_weights, settings.calibration) == (False, False)


def test_neighbours_alone_train_one_function_for_one_pass():
    settings, _ = resolve(load_catalogue(), "neighbours", (100_000, 50_000, 20_000), {})
    assert (settings.factors, settings.epochs, settings.label_weights) == (1, 1, False)
    assert settings.pools_neighbours
    assert settings.inducing == "features"
