"""Available memory: the machine's, less in control groups of both versions, and unknown elsewhere."""

import os

import pytest

from xmlgp.runtime.memory import available_memory

GIGABYTE = 1 << 30

#: What the machine has, in kilobytes.
MACHINE = {"MemTotal:": 64 << 20, "MemFree:": 1 << 20, "MemAvailable:": 32 << 20, "SwapTotal:": 0, "SwapFree:": 0}

#: The files of a control group by version: its folder, limit, usage, and a file of statistics.
FILES = {
    2: ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file {}\nactive_file 0\n"),
    1: (
        "sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "inactive_file 7\ntotal_inactive_file {}\ntotal_active_file 0\n",
    ),
}

VERSIONS = pytest.mark.parametrize("version", [1, 2])


@pytest.fixture
def machine(tmp_path):
    """Return a function that writes a file."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("proc/meminfo", "".join(f"{name} {value} kB\n" for name, value in MACHINE.items()) + "HugePages_Total: 0\n")
    return write


def add_group(write, version, path, limit, used, files=0):
    """Write the files of a control group; sizes in gigabytes."""
    folder, limit_name, used_name, statistics = FILES[version]
    write(f"{folder}{path}/{limit_name}", f"{limit if limit == 'max' else limit * GIGABYTE}\n")
    write(f"{folder}{path}/{used_name}", f"{used * GIGABYTE}\n")
    write(f"{folder}{path}/memory.stat", statistics.format(files * GIGABYTE))


def belong(write, version, path):
    """Say that the process belongs to a control group."""
    lines = {2: f"0::{path}\n", 1: f"5:cpu,cpuacct:/other\n4:memory:{path}\n0::/\n"}
    write("proc/self/cgroup", lines[version])


def test_the_address_space_counts(tmp_path, machine):
    machine(
        "proc/self/limits", "Limit  Soft Limit  Hard Limit  Units\nMax address space  3221225472  unlimited  bytes\n"
    )
    machine("proc/self/statm", f"{GIGABYTE // os.sysconf('SC_PAGE_SIZE')} 100 50 1 0 70 0\n")
    assert available_memory(tmp_path) == 2 * GIGABYTE
    machine("proc/self/limits", "Max address space         unlimited            unlimited            bytes\n")
    assert available_memory(tmp_path) == 32 * GIGABYTE


def test_swap_space_counts(tmp_path, machine):
    machine("proc/meminfo", "MemAvailable: 1048576 kB\nSwapFree: 2097152 kB\n")
    assert available_memory(tmp_path) == 3 * GIGABYTE


@VERSIONS
def test_the_limits_of_a_group_and_of_those_that_it_is_in_count_without_files_in_memory(tmp_path, machine, version):
    belong(machine, version, "/job/task")
    add_group(machine, version, "/job/task", 10, 5, files=3)
    assert available_memory(tmp_path) == 8 * GIGABYTE
    add_group(machine, version, "/job", 6, 2)
    assert available_memory(tmp_path) == 4 * GIGABYTE


@VERSIONS
def test_in_a_container_its_own_group_is_at_the_root(tmp_path, machine, version):
    belong(machine, version, "/docker/0123")
    add_group(machine, version, "", 10, 1)
    assert available_memory(tmp_path) == 9 * GIGABYTE


@VERSIONS
def test_a_generous_limit_or_none_changes_nothing(tmp_path, machine, version):
    belong(machine, version, "/job")
    add_group(machine, version, "/job", "max" if version == 2 else 1 << 33, 5)
    assert available_memory(tmp_path) == 32 * GIGABYTE


@pytest.mark.parametrize("text", [None, "", "MemAvailable: much\n", "MemFree: 5 kB\n"])
def test_it_is_unknown_on_other_machines(tmp_path, text):
    if text is not None:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/meminfo").write_text(text)
    assert available_memory(tmp_path) is None


@pytest.mark.parametrize("line", ["nonsense", "0:nonsense", "0::relative", "0::/\udcff"])
def test_groups_that_cannot_be_read_change_nothing(tmp_path, machine, line):
    belong(machine, 2, "/job")
    add_group(machine, 2, "/job", 6, 2)
    with open(tmp_path / "proc/self/cgroup", "a", errors="surrogateescape") as stream:
        stream.write(f"{line}\n")
    with open(tmp_path / "sys/fs/cgroup/job/memory.stat", "a") as stream:
        stream.write("nothing\n")
    assert available_memory(tmp_path) == 4 * GIGABYTE
