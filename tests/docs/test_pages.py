"""Pages name commands, options, files and other pages that exist, and can be reached."""

import re
import shlex

import click
import pytest

from tests.docs.pages import (
    CODE_SPAN,
    DOCS,
    PAGES,
    ROOT,
    anchors_of,
    blocks_of,
    commands_of,
    links_of,
    name_of,
    prose_of,
    toctrees_of,
)
from xmlgp.cli import COMMANDS, main

#: Other Markdown files whose links are followed.
LINKING = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "findings" / "README.md"]

OPTION = re.compile(r"--?[a-zA-Z][\w-]*")


def tree_of_commands():
    """Return every command by its words, such as `("plot", "bound")`."""
    context = click.Context(main, info_name="xmlgp")
    found = {}
    for name in COMMANDS:
        command = found[name,] = main.get_command(context, name)
        for inner, subcommand in getattr(command, "commands", {}).items():
            found[name, inner] = subcommand
    return found


def options_by_command():
    """Return the options of every command, by its words."""
    found = {}
    for words, command in tree_of_commands().items():
        context = click.Context(command, help_option_names=["-h", "--help"])
        parameters = command.get_params(context)
        found[words] = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    return found


OPTIONS = options_by_command()

ALL_OPTIONS = set().union(*OPTIONS.values(), {"--version", "-V"})


def unknown_options(command):
    """Return the options of a shell command, or of a part of one that prose quotes, which xmlgp does not have."""
    unknown = []
    for part in re.split(r"\|+|&&|;", command):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:  # a lone quotation mark in prose
            words = part.split()
        words = words[1:] if words[:1] == ["xmlgp"] else words
        given = [word.partition("=")[0] for word in words if OPTION.fullmatch(word.partition("=")[0])]
        if not words or not given:
            continue
        known = next((OPTIONS[tuple(words[:n])] for n in (2, 1) if tuple(words[:n]) in OPTIONS), None)
        if known is None and not words[0].startswith("-"):
            continue  # another program
        unknown += [option for option in given if option not in (known or ALL_OPTIONS) | {"-h", "--help"}]
    return unknown


def unknown_options_of(text):
    """Return the options that the commands and the prose of a page name, and that do not exist, by command."""
    commands = [command for block in blocks_of(text) if block.language != "python" for command in commands_of(block)]
    spans = [" ".join(span.split()) for span in CODE_SPAN.findall(prose_of(text))]
    return {command: unknown for command in commands + spans if (unknown := unknown_options(command))}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_options_that_a_page_names_exist(page):
    assert unknown_options_of(page.read_text(encoding="utf-8")) == {}


def test_files_and_classes_that_the_page_about_development_names_exist():
    spans = CODE_SPAN.findall((DOCS / "development" / "index.md").read_text(encoding="utf-8"))
    source = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "xmlgp").rglob("*.py"))
    missing = [span for span in spans if re.match(r"[\w.]+/", span) and not (ROOT / span).exists()]
    classes = [span for span in spans if re.fullmatch(r"[A-Z][a-z]+([A-Z][a-z]+)*", span)]
    assert missing + [name for name in classes if not re.search(rf"^class {name}\b", source, re.MULTILINE)] == []


def test_every_command_is_in_the_reference():
    text = (DOCS / "commands.md").read_text(encoding="utf-8")
    described = re.findall(r"^#{2,3} xmlgp (.+)\n\n```\{command\} (.+)\n```", text, re.MULTILINE)
    assert [heading for heading, _ in described] == [command for _, command in described]
    assert {tuple(command.split()) for _, command in described} == set(tree_of_commands())


def dead_links_of(page):
    """Return the targets of the links of a page within the repository that do not exist."""
    dead = []
    for target in links_of(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.is_file() or (anchor and anchor not in anchors_of(file.read_text(encoding="utf-8"))):
            dead.append(target)
    return dead


@pytest.mark.parametrize("page", LINKING, ids=name_of)
def test_links_within_the_repository_lead_somewhere(page):
    assert dead_links_of(page) == []


def test_every_page_is_in_the_navigation():
    reached, open_ = set(), [DOCS / "index.md"]
    while open_:
        page = open_.pop()
        if page not in reached:
            reached.add(page)
            open_ += toctrees_of(page)
    assert {name_of(page) for page in reached} == {name_of(page) for page in DOCS.rglob("*.md")}


def test_files_of_the_package_that_pages_name_exist():
    named = {name for page in PAGES for name in re.findall(r"`(xmlgp/[\w/]+(?:\.py|/))`", page.read_text("utf-8"))}
    assert named
    assert {name for name in named if not (ROOT / name).exists()} == set()
