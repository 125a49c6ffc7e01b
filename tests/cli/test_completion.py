"""What shells are told to complete: by the outline of the commands in the cache, without importing them."""

import json

import click
import pytest

from tests.cli.command import CATALOGUE, run, said, spawn
from tests.cli.test_help import ALL
from xmlgp.cli import main, shells


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Return the cache folder of all tests: an outline takes a second."""
    return tmp_path_factory.mktemp("completion")


@pytest.fixture(autouse=True)
def cache(shared, monkeypatch):
    """Return the cache folder."""
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(shared))
    monkeypatch.delenv("XMLGP_CATALOGUE", raising=False)
    return shared


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Return a cache folder that only this test uses."""
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def completed(line, shell="bash", **environment):
    """Return what completes the last word of a line, as the shell gets it."""
    word = line.rpartition(" ")[2]
    words = {"COMP_WORDS": line, "COMP_CURRENT": word, "COMP_CWORD": word if shell == "fish" else str(line.count(" "))}
    result = spawn(environment={"_XMLGP_COMPLETE": f"{shell}_complete", **words, **environment}, timeout=60)
    assert (result.returncode, result.stderr) == (0, b"")
    return result.stdout.decode().splitlines()


def outlined(words):
    """Return a command of the outline and its context."""
    command = shells.outline(main)
    context = click.Context(command, info_name="xmlgp")
    for word in words:
        command = command.get_command(context, word)
        context = click.Context(command, context, info_name=word)
    return command, context


def items_of(line):
    """Return what completes the last word of a line, as whole words."""
    *words, incomplete = line.split(" ")
    return shells.SHELLS["fish"](main, {}, "xmlgp", "_XMLGP_COMPLETE").get_completions(words[1:], incomplete)


def test_commands_and_options_of_all_commands_are_completed():
    assert len(ALL) > 18
    for words, command in ALL.items():
        known, context = outlined(words)
        options = {name for param in command.params if isinstance(param, click.Option) for name in param.opts}
        assert {item.value for item in known.shell_complete(context, "-")} >= options
        parent = outlined(words[:-1])
        assert words[-1] in [item.value for item in parent[0].shell_complete(parent[1], "")]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("xmlgp train d m --set optimis", ["optimiser="]),
        ("xmlgp train d m --set optimiser=adam", ["optimiser=adam"]),
        ("xmlgp train d m --set=calibration=", ["--set=calibration=true", "--set=calibration=false"]),
        ("xmlgp train d m --set factors=", []),
        ("xmlgp search d --set model=", ["model=mlgpf", "model=bmlpl", "model=gpc"]),
        ("xmlgp preprocess d m --set epo", []),
        ("xmlgp train d m --kernel s", ["se", "se+linear"]),
        ("xmlgp train d m --recipe s-", ["s-LINEAR", "s-SE"]),
        ("xmlgp fetch tic", ["tickets"]),
        ("xmlgp settings m", ["mlgpf"]),
        ("xmlgp predict m d --format x", ["xlsx"]),
        ("xmlgp completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_names_are_completed(line, names):
    assert [item.value for item in items_of(line) if item.type == "plain"] == names


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("xmlgp train ", ["file"]),
        ("xmlgp vectorize corpus ", ["dir"]),
        ("xmlgp predict ", ["file"]),
        ("xmlgp predict m ", ["file"]),
        ("xmlgp train d m --recipe ", ["file"]),
        ("xmlgp settings ", ["file"]),
        ("xmlgp train d m --seed ", []),
    ],
)
def test_paths_are_completed_where_a_file_or_a_folder_may_be(line, paths):
    assert [item.type for item in items_of(line) if item.type != "plain"] == paths


def test_each_shell_gets_what_it_puts_in_the_place_of_what_it_divides_words_into():
    line = "xmlgp train d m --model=b"
    assert completed(line, COMP_CURRENT="b") == ["plain,bmlpl"]
    assert completed(line, "zsh") == ["plain", "bmlpl", ""]
    assert completed(line, "fish") == ["plain,--model=bmlpl"]


def test_completion_imports_no_numpy_once_the_outline_is_made():
    assert completed("xmlgp trai") == ["plain,train"]
    environment = {"_XMLGP_COMPLETE": "bash_complete", "COMP_WORDS": "xmlgp trai", "COMP_CURRENT": "trai"}
    result = spawn(environment=environment | {"PYTHONPROFILEIMPORTTIME": "1"}, timeout=60)
    assert result.stdout == b"plain,train\n"
    assert b"xmlgp.runtime.cache_folder" in result.stderr
    assert b"numpy" not in result.stderr


@pytest.mark.usefixtures("own_cache")
def test_the_outline_is_made_anew_when_the_catalogue_changes(tmp_path, monkeypatch):
    file = tmp_path / "catalogue.yaml"
    file.write_text(CATALOGUE)
    monkeypatch.setenv("XMLGP_CATALOGUE", str(file))
    assert completed("xmlgp fetch k") == ["plain,known"]
    file.write_text(CATALOGUE.replace("known:", "kept-elsewhere:"))
    assert completed("xmlgp fetch k") == ["plain,kept-elsewhere"]


@pytest.mark.usefixtures("own_cache")
def test_names_of_a_catalogue_that_a_shell_would_run_are_left_out(tmp_path, monkeypatch):
    file = tmp_path / "catalogue.yaml"
    recipes = [r"'s;reboot': {settings: {}}", r's-wide: {settings: {start: "a\tb\e[2J"}}']
    file.write_text(CATALOGUE + "".join(f"  {recipe}\n" for recipe in recipes))
    monkeypatch.setenv("XMLGP_CATALOGUE", str(file))
    assert completed("xmlgp train d m --recipe s") == ["plain,s-SMALL", "plain,s-wide", "file,s"]
    assert completed("xmlgp train d m --recipe s-w", "fish") == ["plain,s-wide\tstart=a b\\u001b[2J", "file,s-w"]


@pytest.mark.parametrize("content", ["", "[]", '{"version": 1}', "{"])
def test_a_damaged_outline_is_made_anew(content, cache):
    shells.outline(main)
    file = cache / "completion.json"
    whole = json.loads(file.read_text())
    file.write_text(content)
    shells.outline(main)
    assert json.loads(file.read_text()) == whole


def test_completion_works_without_a_cache_or_a_catalogue(tmp_path):
    (tmp_path / "file").touch()
    assert completed("xmlgp trai", XMLGP_CACHE_DIR=str(tmp_path / "file" / "cache")) == ["plain,train"]
    (tmp_path / "wrong.yaml").write_text("datasets: 3\n")
    environment = {"XMLGP_CATALOGUE": str(tmp_path / "wrong.yaml"), "XMLGP_CACHE_DIR": str(tmp_path / "cache")}
    assert completed("xmlgp trai", **environment) == ["plain,train"]


@pytest.mark.parametrize("shell", shells.SHELLS)
def test_the_command_prints_a_script_for_each_shell(shell, own_cache):
    result = run("completion", shell)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"_XMLGP_COMPLETE={shell}_complete" in result.stdout
    # The first Tab need not make it.
    assert (own_cache / "completion.json").exists()


def test_other_shells_are_refused():
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in said(run("completion", "tcsh"), 2)
