"""What shells complete when Tab is pressed: commands, options, and names of recipes, settings, models and data sets.

Click finds what the word is a part of. The real commands would take a second of a processor to import, so Click gets an
outline of them: commands with the same options and names, and no function. The outline is kept in the user's cache
folder until a file of the package or the catalogue changes. The scripts differ from those of Click in what follows `=`,
and in descriptions with commas.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

from xmlgp.cli import COMMANDS, COMPLETION
from xmlgp.cli.help import brief
from xmlgp.errors import XmlgpError
from xmlgp.runtime.atomic_files import atomic_write
from xmlgp.runtime.cache_folder import cache_root
from xmlgp.runtime.untrusted_text import visible
from xmlgp.version import __version__

__all__ = ["SHELLS", "complete_names", "outline", "script"]

#: What Click calls for the names that can stand for an incomplete word.
Completer: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]"

#: Names that mean nothing else to a shell, which inserts them as they are: a catalogue may be of a stranger.
PLAIN = re.compile(r"[\w.+=-]+")

#: Incremented when the form of the outline changes.
FORMAT = 1

BASH = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o filenames; mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$2") ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_WORDS="${COMP_LINE:0:COMP_POINT}" COMP_CURRENT="$2" %(complete_var)s=bash_complete "$1" 2> /dev/null)
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

ZSH = """\
#compdef %(prog_name)s
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
%(complete_func)s() {
    local type value text paths
    local -a plain begun
    compset -P '*='
    for type value text in "${(@f)$(COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \\
%(complete_var)s=zsh_complete %(prog_name)s 2> /dev/null)}"; do
        case $type in
            dir) paths=/ ;;
            file) paths=f ;;
            plain) if [[ $value == *= ]]; then begun+=("$value:$text"); else plain+=("$value:$text"); fi ;;
        esac
    done
    (( $#begun )) && _describe -V unsorted begun -S ''
    (( $#plain )) && _describe -V unsorted plain
    [[ -n $paths ]] && _path_files -$paths
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""

FISH = """\
function %(complete_func)s
    for line in (COMP_WORDS=(commandline -cp | string collect) COMP_CWORD=(commandline -ct | string collect) \\
%(complete_var)s=fish_complete %(prog_name)s 2> /dev/null)
        set -l item (string split -m 1 , -- $line)
        switch $item[1]
            case dir
                __fish_complete_directories $item[2]
            case file
                __fish_complete_path $item[2]
            case plain
                echo $item[2]
        end
    end
end
complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


def complete_names(names: Callable[[], Iterable[tuple[str, str]]], with_files: bool = False) -> Completer:
    """Return what completes names, pairs with a text about each, and perhaps paths of files.

    Names such as `calibration=true` are two steps: first what stands up to `=`, then the rest.
    """

    def complete(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        items = []
        # Of a wrong catalogue the command will say what is wrong.
        with contextlib.suppress(XmlgpError, OSError):
            items = [
                # A terminal shows the text as it is.
                CompletionItem(name, help=visible(" ".join(text.split())))
                for name, text in names()
                if _continues(name, incomplete) and PLAIN.fullmatch(name)
            ]
        return items + ([CompletionItem(incomplete, type="file")] if with_files else [])

    return complete


def _continues(name: str, incomplete: str) -> bool:
    """Return whether a name is the next step from an incomplete word."""
    rest = name[len(incomplete) :]
    is_begun = not rest and name.endswith("=")
    return name.startswith(incomplete) and not is_begun and "=" not in rest[:-1]


class _Outlined(ShellComplete):
    """Completes by the outline, and takes `=` as the shell does."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        try:
            self.cli = outline(self.cli)
        except XmlgpError:  # there is too little memory for the libraries
            return []
        items = super().get_completions(args, incomplete)
        # Click has taken `--model=` off, which is a part of the word to the shell.
        flag, equals, _ = incomplete.partition("=")
        start = flag + equals if incomplete.startswith("-") and equals else ""
        kept = len(self.kept_by_shell(incomplete))
        for item in items:
            if item.type == "plain":
                item.value = (start + item.value)[kept:]
        return items

    def kept_by_shell(self, incomplete: str) -> str:
        """Return the start of an incomplete word that the shell does not replace."""
        return ""


class _Bash(_Outlined, BashComplete):
    source_template = BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        # The words of bash are divided at = and :, so the line is divided here.
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)
        incomplete = "" if line[-1:].isspace() else words.pop()
        return words[1:], incomplete

    def kept_by_shell(self, incomplete: str) -> str:
        return incomplete.removesuffix(os.environ["COMP_CURRENT"])


class _Zsh(_Outlined, ZshComplete):
    source_template = ZSH

    def kept_by_shell(self, incomplete: str) -> str:
        return incomplete[: incomplete.rfind("=") + 1]

    def format_completion(self, item: CompletionItem[str]) -> str:
        # `_describe` divides a name from its text at the first colon.
        value = item.value.replace(":", r"\:")
        return f"{item.type}\n{value}\n{item.help or ''}"


class _Fish(_Outlined, FishComplete):
    source_template = FISH


SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}
for _shell, _class in SHELLS.items():
    add_completion_class(_class, _shell)


def script(shell: str, main: click.Command) -> str:
    """Return the script that makes a shell complete the command line, and prepare what completes."""
    with contextlib.suppress(XmlgpError):
        outline(main)
    return SHELLS[shell](main, {}, "xmlgp", COMPLETION).source()


def outline(main: click.Command) -> click.Group:
    """Return the outline of all commands: the one in the cache, or a new one, which is kept."""
    version = _version()
    described = None
    # Without a cache folder it is made each time.
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        stored = json.loads(_outline_file().read_bytes())
        described = stored["commands"] if stored["version"] == version else None
    if described is None:
        described = _describe(main, click.Context(main, info_name="xmlgp"))
        with contextlib.suppress(OSError):
            _outline_file().parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(_outline_file()) as stream:
                stream.write(json.dumps({"version": version, "commands": described}).encode())
    return _Group("xmlgp", described)


def _outline_file() -> Path:
    return cache_root() / "completion.json"


def _version() -> str:
    """Return a digest of what the outline depends on: the files of this package and the catalogue, by size and time."""
    package = Path(__file__).parents[1]
    catalogues = [package.with_name("datasets.yaml"), Path(os.environ.get("XMLGP_CATALOGUE") or package)]
    files = [__version__, str(FORMAT)]
    for file in (*sorted(package.rglob("*.py")), *package.rglob("*.yaml"), *catalogues):
        if file.is_file():
            state = file.stat()
            files.append(f"{file}:{state.st_size}:{state.st_mtime_ns}")
    return hashlib.sha256("\n".join(files).encode()).hexdigest()


class _Group(click.Group):
    """The outline of a command that has commands; each is made when it is asked for."""

    def __init__(self, name: str, described: dict[str, Any], **attributes: Any) -> None:  # noqa: ANN401, as Click has it
        super().__init__(name, params=[_param(about) for about in described["params"]], **attributes)
        self.described = described["commands"]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.described)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        about = self.described.get(cmd_name)
        if about is None:
            return None
        if about["commands"]:
            return _Group(cmd_name, about, short_help=about["help"])
        return click.Command(cmd_name, params=[_param(param) for param in about["params"]], short_help=about["help"])


def _param(about: dict[str, Any]) -> click.Parameter:
    """Return the outline of an option or argument."""

    def complete(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        items = [CompletionItem(value, help=text) for value, text in about["names"] if _continues(value, incomplete)]
        return items + [CompletionItem(incomplete, type=path) for path in about["paths"]]

    if "argument" in about:
        return click.Argument([about["argument"]], nargs=about["nargs"], required=False, shell_complete=complete)
    return click.Option(
        [*about["flags"], about["name"]],
        is_flag=about["is_flag"],
        multiple=about["multiple"],
        help=about["help"],
        shell_complete=complete,
    )


def _describe(command: click.Command, context: click.Context) -> dict[str, Any]:
    """Return the outline of a command, for JSON."""
    commands = {}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            if subcommand:
                inner = click.Context(subcommand, context, info_name=name)
                commands[name] = _describe(subcommand, inner)
    params = [_describe_param(param, context) for param in command.params]
    summary = COMMANDS.get(command.name or "") or command.get_short_help_str()
    return {"help": summary, "params": params, "commands": commands}


def _describe_param(param: click.Parameter, context: click.Context) -> dict[str, Any]:
    """Return the outline of an option or argument, for JSON."""
    items = param.shell_complete(context, "")
    # What stands after = is a second step.
    items += [more for item in items if item.value.endswith("=") for more in param.shell_complete(context, item.value)]
    about = {
        "names": [(item.value, item.help or "") for item in items if item.type == "plain"],
        "paths": [item.type for item in items if item.type != "plain"],
    }
    if not isinstance(param, click.Option):
        return about | {"argument": param.name, "nargs": param.nargs}
    *flags, last = param.opts
    flags.append("/".join([last, *param.secondary_opts]))
    return about | {
        "flags": flags,
        "name": param.name,
        "is_flag": param.is_flag,
        "multiple": param.multiple,
        "help": brief(param.help or ""),
    }
