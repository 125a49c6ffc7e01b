"""A plugin of pytest: the option `--must-run`, with which a run fails if it skips a test that could have run.

pytest itself passes if all tests are skipped, so a package that a gate does not install would switch tests off unseen.
"""

from collections import Counter

import pytest

__all__ = ["pytest_addoption", "pytest_sessionfinish", "pytest_terminal_summary"]

#: How the reasons begin for which a test may be skipped with `--must-run=here`: nothing that could be installed changes
#: the first two, and `make test-encoders` runs what has the others.
MAY_SKIP = (
    "this system has no ",
    "this Python has no ",
    "sentence-transformers is not installed: ",
    "no real encoder is given: ",
)


def pytest_addoption(parser):
    parser.addoption(
        "--must-run",
        choices=("here", "all"),
        help="fail if a test is skipped, by any reason (all) or by one that does not excuse it (here)",
    )


def pytest_sessionfinish(session):
    if session.exitstatus == pytest.ExitCode.OK and _counts(session.config)[1]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    if config.option.must_run:
        skipped, wrongly = _counts(config)
        terminalreporter.write_line(f"skipped {_described(skipped)}")
        if wrongly:
            terminalreporter.write_line(f"FAILED, because these must run: {_described(wrongly)}", red=True)


def _counts(config):
    """Return how many tests or modules were skipped by each reason, and by those that are failures (Counter)."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    # The processes of pytest-xdist have none: what they skip is reported to the first process.
    if not reporter or not config.option.must_run:
        return Counter(), Counter()
    skipped = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reporter.stats.get("skipped", ()))
    may = MAY_SKIP if config.option.must_run == "here" else ()
    return skipped, Counter({reason: count for reason, count in skipped.items() if not reason.startswith(may)})


def _described(counts):
    reasons = "; ".join(f"{reason} ({count})" for reason, count in sorted(counts.items()))
    return f"{sum(counts.values())}: {reasons}" if reasons else "none"
