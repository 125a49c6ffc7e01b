"""The help of all commands: the first session, the first screen of options, all of them in groups, and examples."""

import importlib.util
import re
import sys

import click
import pytest

from tests.cli.command import run, said, spawn
from tests.docs.pages import ROOT
from xmlgp.cli import COMMANDS, SECTIONS, main
from xmlgp.cli.help import GROUPS, Subcommand, option

#: The lines and columns that the first screen of a command may have.
SCREEN = (50, 80)


def all_commands():
    """Return every command by its words, such as `("plot", "bound")`."""
    commands = {}
    for name in COMMANDS:
        command = commands[name,] = main.get_command(None, name)
        for inner, subcommand in getattr(command, "commands", {}).items():
            commands[name, inner] = subcommand
    return commands


ALL = all_commands()

#: The commands that leave options out on the first screen.
LONG = {words: command for words, command in ALL.items() if getattr(command, "common", None)}


def option_names(command):
    """Return the long names of the options of a command, or the short ones of those without."""
    options = [param for param in command.params if isinstance(param, click.Option)]
    return {max(param.opts, key=len) for param in options}


def listed_names(text):
    """Return the options that a help text lists, each with the line of its names."""
    lines = re.findall(r"^  (-.*?)(?:  .*)?$", text, re.MULTILINE)
    return {name for line in lines for name in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", line)}


def help_at(columns, *words):
    """Return the help that a terminal of so many columns gets."""
    result = spawn(*words, environment={"COLUMNS": str(columns)}, timeout=60)
    assert (result.returncode, result.stderr) == (0, b"")
    return result.stdout.decode()


def examples_in(text):
    """Return the commands of xmlgp among the examples of a help text."""
    blocks = re.findall(r"^ *(?:More examples|Examples?|A first session.*):\n((?: {4}.*\n)+)", text, re.MULTILINE)
    parts = [part.strip() for block in blocks for line in block.splitlines() for part in line.split("|")]
    return [part for part in parts if part.startswith("xmlgp ")]


def parse_command(line):
    """Parse a command line without running it."""
    program, name, *arguments = line.split()
    assert program == "xmlgp"
    parent = click.Context(main, **main.context_settings)
    return main.get_command(None, name).make_context(name, arguments, parent=parent)


def test_help_lists_every_command_in_its_section():
    text = run("--help").stdout
    for title, commands in SECTIONS.items():
        section = text.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert re.findall(r"^  (\w+) +(.+)$", section, re.MULTILINE) == list(commands.items())
    assert run("-h").stdout == text


def test_the_first_session_begins_with_documents_and_its_commands_are_valid():
    commands = examples_in(run("--help").stdout)
    assert commands[0] == "xmlgp fetch tickets"
    assert [parse_command(command).info_name for command in commands] == ["fetch", "train", "predict", "report"]


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_has_help_with_a_valid_example(words):
    result = run(*words, "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    assert run(*words, "-h").stdout == result.stdout
    whole = run(*words, "--help-all").stdout if words in LONG else result.stdout
    for text in result.stdout, whole:
        assert words[0] in [parse_command(command).info_name for command in examples_in(text)]


@pytest.mark.parametrize("words", LONG, ids=" ".join)
def test_help_of_a_command_with_many_options_fits_a_screen(words):
    assert len(help_at(SCREEN[1], *words, "--help").splitlines()) <= SCREEN[0]


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_the_first_screen_of_every_command_is_as_wide_as_a_terminal_at_most(words):
    assert max(map(len, help_at(SCREEN[1], *words, "--help").splitlines())) <= SCREEN[1]


@pytest.mark.parametrize("words", LONG, ids=" ".join)
def test_the_first_screen_says_how_many_options_it_leaves_out(words):
    command = LONG[words]
    text = run(*words, "--help").stdout
    match = re.fullmatch(r"`main (.+) --help-all` lists (\d+) more options?\.", text.splitlines()[-1])
    shown = listed_names(text) & option_names(command)
    assert match[1] == " ".join(words)
    # Beside those, it lists the options of help.
    assert int(match[2]) == len(option_names(command)) - len(shown) - 1 > 0


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_all_options_and_the_whole_text_are_in_the_whole_help(words):
    command = ALL[words]
    if words not in LONG:
        assert len(option_names(command)) < 14
        assert said(run(*words, "--help-all"), 2).startswith("No such option")
    text = run(*words, "--help-all" if words in LONG else "--help").stdout
    assert listed_names(text) >= option_names(command)
    assert "".join(command.help.replace("\b", "").split()) in "".join(text.split())


@pytest.mark.parametrize("words", [(), ("plot",)])
def test_a_command_without_arguments_shows_its_help_in_lines(words):
    result = run(*words)
    assert result.exit_code == 2
    assert result.stderr == run(*words, "--help").stdout


def test_help_needs_no_arguments_and_comes_before_wrong_ones():
    text = run("train", "--help-all").stdout
    assert run("train", "a", "b", "c", "--epochs", "--help-all").stdout != text
    assert run("train", "a", "b", "c", "--help-all").stdout == text


def test_wrong_usage_names_the_help_of_the_first_screen():
    assert "Try 'main train --help' for help." in run("train").stderr


@pytest.mark.parametrize("words", LONG, ids=" ".join)
def test_groups_stand_in_one_order_in_every_help(words):
    for flag in "--help", "--help-all":
        titles = re.findall(r"^(\w+):$", run(*words, flag).stdout, re.MULTILINE)
        assert titles == [group for group in GROUPS if group in titles]
        assert len(titles) > 1


@pytest.mark.parametrize("words", [("train",), ("predict",), ("fetch",), ()], ids=" ".join)
@pytest.mark.parametrize("columns", [30, 40, 60])
def test_help_fits_narrow_terminals(words, columns):
    text = help_at(columns, *words, "--help")
    for line in text.splitlines():
        # Commands, and lists of what an option may be, are not broken.
        if not re.match(r" {4}(xmlgp|echo) |  .*[|]", line):
            assert len(line) <= columns, line


def test_every_option_has_a_help_text_with_its_default():
    for words, command in ALL.items():
        for param in command.params:
            if isinstance(param, click.Option):
                text, _, default = param.help.partition("  [default: ")
                assert text.endswith("."), (words, param)
                known = param.get_default(click.Context(command))
                if isinstance(known, str | int | float) and known is not False:
                    assert param.show_default or default, (words, param)


def test_groups_and_common_options_that_do_not_exist_are_errors():
    with pytest.raises(ValueError, match="Dta is not one of "):
        click.command()(option("--seed", group="Dta")(lambda: None))
    with pytest.raises(ValueError, match="many has no option --sed"):
        Subcommand("many", params=[click.Option(["--seed"])], common=["--sed"])


def test_the_reference_has_all_options_in_groups(monkeypatch):
    pytest.importorskip("docutils")
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "_extensions" / "reference.py")
    reference = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "reference", reference)
    spec.loader.exec_module(reference)
    for words, command in ALL.items():
        sections = reference.help_sections(words)
        names = listed_names("\n".join(f"  {names}" for _, rows in sections for names, _ in rows))
        assert names >= option_names(command)
        assert words not in LONG or len(sections) > 1


def options_of_all():
    """Return pairs of the words of a command and one of its options."""
    return [(words, param) for words, command in ALL.items() for param in command.params if hasattr(param, "help")]


def test_the_default_is_that_of_a_model_only_where_one_is_read():
    naming = {
        words for words, param in options_of_all() if re.search(r"\[default: .*MODEL", param.help or "", re.DOTALL)
    }
    assert naming == {("predict",), ("learn",), ("tune",), ("report",), ("topics",)}


def test_a_seed_has_one_form_everywhere():
    seeds = {words: param.metavar for words, param in options_of_all() if "--seed" in param.opts}
    assert ("train",) in seeds
    assert set(seeds.values()) == {"N"}
