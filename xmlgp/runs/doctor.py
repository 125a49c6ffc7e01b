"""`examine`: what a report of a bug should say of the machine and of the installation, and what is wrong there.

Nothing private is said: the home folder is `~`, and neither the name of the machine nor variables are shown.
"""

from __future__ import annotations

import importlib
import locale
import multiprocessing
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from xmlgp.runtime.cache_folder import cache_root
from xmlgp.runtime.memory import available_memory, check_address_space
from xmlgp.runtime.threads import core_count
from xmlgp.runtime.untrusted_text import visible
from xmlgp.version import __version__

__all__ = ["Examination", "examine"]

#: Free bytes of a disk, below which something will fail soon.
LEAST_FREE = 1 << 30

#: Seconds for which packages are imported to see whether they can be; those that are left are named.
IMPORTING = 5.0

#: What is sent of a module that can be imported.
FINE = "fine"

#: A requirement in the metadata of a distribution: its name, extras of it, versions, and the extra that has it.
REQUIREMENT = re.compile(r"([\w.-]+)(?:\[([\w,-]+)\])?\s*([^;]*)(?:;(.*))?")
LOWEST = re.compile(r">=\s*([\d.]+)")
EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")

#: The extra that has what users may want.
ALL = "all"

#: What is said of something that cannot be found out.
UNKNOWN = "unknown"


class Examination(NamedTuple):
    """What was found: facts by the names of sections and of facts, and problems, a sentence each."""

    sections: dict[str, dict[str, str]]
    problems: list[str]


class _Requirement(NamedTuple):
    name: str
    extras: list[str]
    lowest: str | None
    extra: str | None


def examine() -> Examination:
    """Return what a report of a bug should say of this machine and this installation.

    It takes some seconds, and never fails: what cannot be found out is "unknown".
    """
    problems: list[str] = []
    parts: dict[str, Callable[[list[str]], dict[str, str]]] = {
        "Versions": _versions,
        "Extras": _extras,
        "Computing": _computing,
        "Files": _files,
        "Terminal": _terminal,
    }
    sections = {name: _facts_of(examine, problems) for name, examine in parts.items()}
    # A package may be in several extras.
    return Examination(sections, list(dict.fromkeys(problems)))


def _facts_of(examine: Callable[[list[str]], dict[str, str]], problems: list[str]) -> dict[str, str]:
    try:
        return {name: visible(_with_tilde(fact)) for name, fact in examine(problems).items()}
    except Exception as error:
        # Its text may have what is private.
        return {UNKNOWN: type(error).__name__}


def _with_tilde(text: str) -> str:
    """Return a text with `~` for the home folder."""
    home = os.path.expanduser("~")
    if home in ("/", "~"):
        return text
    return text.replace(home, "~").replace(os.path.realpath(home), "~")


def _value(find: Callable[[], object]) -> str:
    """Return what a function finds, as a text."""
    try:
        return str(find())
    except Exception:
        return UNKNOWN


# Versions


def _versions(problems: list[str]) -> dict[str, str]:
    folder = Path(__file__).resolve().parents[1]
    facts = {
        "xmlgp": f"{__version__}, {_kind_of_installation(folder)}, in {folder.parent}",
        "Python": f"{platform.python_version()}, {platform.python_implementation()}, {sys.executable}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    for requirement in _requirements():
        if requirement.extra is None:
            facts[requirement.name] = _installed(requirement, problems)
    facts["command"] = _command(problems)
    return facts


def _kind_of_installation(folder: Path) -> str:
    """Return how xmlgp was installed."""
    installed = {Path(str(file.locate())).resolve() for file in _distribution_files() if file.name == "version.py"}
    if folder / "version.py" in installed:
        return "installed from a wheel"
    return "a checkout" if (folder.parent / "setup.cfg").exists() else "not installed by pip"


def _distribution_files() -> list[metadata.PackagePath]:
    try:
        return metadata.files("xmlgp") or []
    except metadata.PackageNotFoundError:
        return []


def _command(problems: list[str]) -> str:
    """Return where the command is that a shell would run; a problem if it is that of another environment."""
    scripts = Path(sys.executable).parent
    command = shutil.which("xmlgp")
    if command is None or Path(os.path.realpath(command)).parent not in (scripts, scripts.resolve()):
        where = _with_tilde(str(scripts))
        other = f"{command} is of another environment" if command else "no folder of PATH has the command xmlgp"
        advice = f"run `. {where}/activate`" if (scripts / "activate").exists() else f"add {where} to PATH"
        problems.append(f"{_with_tilde(other)}; {advice}, or use `python -m xmlgp`")
    return command or "not on PATH"


def _requirements() -> Iterator[_Requirement]:
    """Yield the requirements in the metadata of xmlgp, which are those of setup.cfg; none without metadata."""
    try:
        texts = metadata.requires("xmlgp") or []
    except metadata.PackageNotFoundError:
        return
    for text in texts:
        match = REQUIREMENT.match(text)
        if match:
            name, extras, versions, marker = match.groups()
            lowest = LOWEST.search(versions)
            extra = EXTRA.search(marker or "")
            yield _Requirement(name, (extras or "").split(","), lowest and lowest[1], extra and extra[1])


def _installed(requirement: _Requirement, problems: list[str]) -> str:
    """Return the version of a distribution; a problem if it is missing or too old."""
    name, _, lowest, extra = requirement
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        if extra is None:
            problems.append(f"{name} is missing; run `python -m pip install {name}`")
        return "missing"
    if lowest and _numbers(version) < _numbers(lowest):
        problems.append(
            f"{name} {version} is too old, {lowest} is needed; run `python -m pip install --upgrade {name}`"
        )
    return version


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


# Extras


def _extras(problems: list[str]) -> dict[str, str]:
    requirements = [requirement for requirement in _requirements() if requirement.extra]
    in_all = {extra for requirement in requirements if requirement.extra == ALL for extra in requirement.extras}
    by_extra: dict[str, list[_Requirement]] = {}
    for requirement in requirements:
        if requirement.extra and requirement.extra != ALL:
            by_extra.setdefault(requirement.extra, []).append(requirement)
    facts = {}
    beyond_all = []
    names = [requirement.name for requirement in _requirements() if requirement.extra is None]
    for extra in sorted(by_extra):
        if extra in in_all:
            versions = {requirement.name: _installed(requirement, problems) for requirement in by_extra[extra]}
            facts[extra] = ", ".join(f"{name} {version}" for name, version in versions.items())
            names += versions
        elif "missing" not in [_installed(requirement, []) for requirement in by_extra[extra]]:
            beyond_all.append(extra)
    facts["also"] = ", ".join(beyond_all) or "none"
    names = [name for name in names if _is_installed(name)]
    not_tried = names if _is_short_of_memory(problems) else _check_imports(names, problems)
    if not_tried:
        facts["not tried"] = f"{', '.join(not_tried)} (whether importing them fails is not known)"
    return facts


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _is_short_of_memory(problems: list[str]) -> bool:
    """Return whether a limit leaves too little for NumPy, which may crash or wait without end; a problem if so."""
    try:
        check_address_space("the libraries of xmlgp", os.cpu_count() or 1)
    except MemoryError as error:
        problems.append(f"{error}; raise the limit")
        return True
    return False


def _check_imports(names: list[str], problems: list[str]) -> list[str]:
    """Add a problem for each distribution that cannot be imported; return those that were not tried within the time.

    Another process imports them, which they may end.
    """
    modules = {module: name for name in dict.fromkeys(names) for module in _modules(name)}
    end = time.monotonic() + IMPORTING
    spawn = multiprocessing.get_context("spawn")
    while modules:
        receiver, sender = spawn.Pipe(duplex=False)
        process = spawn.Process(target=_import_modules, args=(list(modules), sender), daemon=True)
        process.start()
        sender.close()
        try:
            while modules and receiver.poll(max(0, end - time.monotonic())):
                module, failure = receiver.recv_bytes().decode().split()
                name = modules.pop(module)
                if failure != FINE:
                    problems.append(_import_problem(name, f"fails with {failure}"))
            if modules:
                return list(dict.fromkeys(modules.values()))
        except (EOFError, BrokenPipeError):
            process.join(1)
            name = modules.pop(next(iter(modules)))
            problems.append(_import_problem(name, f"ends Python with status {process.exitcode}"))
        finally:
            process.kill()
            process.join()
            receiver.close()
    return []


def _import_modules(modules: list[str], results: Connection) -> None:
    """Import modules one after the other, and send of each what that raised."""
    # What they print is no result.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    for module in modules:
        failure = FINE
        try:
            importlib.import_module(module)
        except BaseException as error:
            failure = type(error).__name__
        results.send_bytes(f"{module} {failure}".encode())


def _import_problem(name: str, failure: str) -> str:
    reason = f"{name} is installed, but importing it {failure}"
    return f"{reason}; run `python -m pip install --force-reinstall {name}`"


def _modules(name: str) -> list[str]:
    """Return the first module of a distribution, by its list of files; none if it has no such list."""
    files = [file.parts for file in metadata.distribution(name).files or []]
    packages = [parts[0] for parts in files if len(parts) == 2 and parts[1] == "__init__.py"]
    modules = [parts[0].removesuffix(".py") for parts in files if len(parts) == 1 and parts[0].endswith(".py")]
    return sorted(module for module in (*packages, *modules) if not module.startswith("_"))[:1]


# Computing


def _computing(problems: list[str]) -> dict[str, str]:
    libraries = []
    if "numpy" in sys.modules or not _is_short_of_memory(problems):
        for module in ("numpy", "scipy.linalg"):
            importlib.import_module(module)  # which load what computes
        libraries = importlib.import_module("threadpoolctl").threadpool_info()
    facts = {
        f"{library['user_api']} {number}": _library(library) for number, library in enumerate(libraries, 1)
    }  # fmt: skip
    kinds = sorted({str(library["internal_api"]) for library in libraries if library["user_api"] == "blas"})
    if len(kinds) > 1:
        problems.append(
            f"{' and '.join(kinds)} are both loaded, and their threads compete; install NumPy and SciPy from one source"
        )
    facts["cores"] = f"{core_count()} usable of {os.cpu_count()}{_core_limit()}"
    facts["memory"] = _memory(problems)
    return facts


def _library(library: dict[str, object]) -> str:
    path = str(library["filepath"]).split("site-packages" + os.sep)[-1]
    facts = [library.get(name) for name in ("internal_api", "version", "architecture", "threading_layer")]
    return " ".join(str(fact) for fact in facts if fact) + f", {library['num_threads']} threads, {path}"


def _core_limit() -> str:
    """Return the limit of the control group, as containers have it, or nothing."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return "" if quota == "max" else f", limited to {int(quota) / int(period):.2g}"
    except (OSError, ValueError):
        return ""


def _memory(problems: list[str]) -> str:
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    available = available_memory()
    if available is not None and available < LEAST_FREE:
        problems.append(f"only {_size(available)} of memory are available; end other programs, or raise the limit")
    parts = [
        _size(available) + " available" if available is not None else "",
        f"{_size(installed)} in all" if installed else "",
    ]
    return ", ".join(filter(None, parts)) or UNKNOWN


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


# Files


def _files(problems: list[str]) -> dict[str, str]:
    facts = {"cache": UNKNOWN}
    try:
        cache = cache_root()
    except OSError:
        problems.append("there is no folder for the cache; set XMLGP_CACHE_DIR to one that you can write to")
    else:
        facts["cache"] = f"{cache}, {_size(_used(cache))}, {_free(cache, 'XMLGP_CACHE_DIR', problems)}"
    facts["numba"] = _value(lambda: _numba(problems))
    facts["temporary"] = f"{tempfile.gettempdir()}, {_free(Path(tempfile.gettempdir()), 'TMPDIR', problems)}"
    return facts


def _used(folder: Path) -> int:
    return sum(
        os.lstat(os.path.join(subfolder, name)).st_size for subfolder, _, names in os.walk(folder) for name in names
    )  # fmt: skip


def _free(folder: Path, variable: str, problems: list[str]) -> str:
    """Return how much space is left where a folder is or would be; a problem if it is little, or not writable."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    shown = _with_tilde(str(folder))
    advice = f"or set {variable} to another folder"
    is_writable = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
    if not is_writable:
        problems.append(f"{shown} cannot be written to; change its permissions, {advice}")
    elif free < LEAST_FREE:
        problems.append(f"{shown} has only {_size(free)} of free space; remove files, {advice}")
    return f"{_size(free)} free" if is_writable else "not writable"


def _probe(number: int) -> int:
    return number


def _numba(problems: list[str]) -> str:
    """Return where machine code is kept; a problem if nowhere, so that each process compiles it again."""
    if "numpy" not in sys.modules and _is_short_of_memory(problems):
        return UNKNOWN
    # Where Numba is broken, the rest is still examined.
    compiled = importlib.import_module("xmlgp.linear_algebra.compiled").compiled
    cache = getattr(compiled(_probe), "_cache", None)
    cache_path = getattr(cache, "cache_path", None)
    if cache_path is None:
        problems.append("Numba finds no folder to keep machine code in; set NUMBA_CACHE_DIR to one you can write to")
        return "no cache"
    return f"{cache_path}, {_free(Path(cache_path), 'NUMBA_CACHE_DIR', problems)}"


# Terminal


def _terminal(problems: list[str]) -> dict[str, str]:
    columns, lines = shutil.get_terminal_size()
    kind = f"{os.environ.get('TERM', 'no TERM')}, {columns}×{lines}"
    encoding = getattr(sys.stdout, "encoding", None) or UNKNOWN
    if encoding.lower().replace("-", "") != "utf8":
        problems.append(f"the terminal's encoding is {encoding}, so some characters are shown as ?; set LC_ALL=C.UTF-8")
    return {
        "terminal": kind if sys.stdout is not None and sys.stdout.isatty() else f"none, {kind}",
        "encoding": f"{encoding}, files {locale.getpreferredencoding(False)}, names {sys.getfilesystemencoding()}",
        "locale": _value(lambda: ".".join(filter(None, locale.getlocale())) or "C"),
    }
