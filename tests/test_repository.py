"""What the hosts of the repository run is what developers run: workflows, hooks and the documentation's build."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def read(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def steps(workflow):
    return [step for job in read(workflow)["jobs"].values() for step in job["steps"]]


def recipe(target):
    """Return the commands of a target of the Makefile."""
    (lines,) = re.findall(rf"^{target}:[^\n]*\n((?:\t[^\n]*\n)+)", MAKEFILE, re.MULTILINE)
    return [line.strip().replace("$(VENV)", ".venv") for line in lines.splitlines()]


def targets(text):
    """Return the targets that lines of a shell make."""
    return re.findall(r"^(?:- run: )?make ([a-z-]+)", text, re.MULTILINE)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_make_targets_that_exist_and_may_only_read(workflow):
    content = read(workflow)
    assert content["permissions"] == {"contents": "read"}
    wanted = []
    for job in content["jobs"].values():
        assert job["timeout-minutes"]
        assert "permissions" not in job
        wanted += job.get("strategy", {}).get("matrix", {}).get("target", [])
        for step in job["steps"]:
            wanted += targets(step.get("run", ""))
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) if "uses" in step else step["run"]
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
    for target in wanted:
        assert re.search(rf"^{target}[ :]|^[^\n:#]* {target}[ :]", MAKEFILE, re.MULTILINE), target


def test_a_change_must_pass_the_gate_on_three_versions_of_python():
    gate = read(".github/workflows/ci.yml")["jobs"]["gate"]
    assert len(gate["strategy"]["matrix"]["python"]) == 3
    assert gate["steps"][-1]["run"] == ".ci/run"


def test_the_scheduled_workflow_makes_what_the_scheduled_script_makes():
    scheduled = targets((ROOT / ".ci/scheduled").read_text(encoding="utf-8"))
    matrix = read(".github/workflows/scheduled.yml")["jobs"]["long"]["strategy"]["matrix"]["target"]
    assert sorted(matrix) == sorted(scheduled)


def test_the_release_workflow_uploads_nothing_to_an_index():
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    assert not re.search(r"twine|publish|secrets|id-token", text)


def test_hooks_run_the_commands_of_make_lint():
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    assert [hook["entry"] for hook in repository["hooks"]] == recipe("lint")
    assert not any(hook["pass_filenames"] for hook in repository["hooks"])


def test_files_of_the_schemas_are_all_that_there_are():
    checked = {word for command in recipe("lint") for word in shlex.split(command) if word.startswith(".github/")}
    assert checked == {path.relative_to(ROOT).as_posix() for path in (ROOT / ".github").rglob("*.yml")}


def test_the_hosted_documentation_is_built_as_make_docs_does():
    content = read(".readthedocs.yaml")
    assert content["sphinx"] == {"configuration": "docs/conf.py", "builder": "html", "fail_on_warning": True}
    assert content["python"]["install"] == [{"method": "pip", "path": ".", "extra_requirements": ["docs"]}]
    assert [command.split()[:4] for command in recipe("docs")][0] == [
        ".venv/bin/sphinx-build",
        "-q",
        "-W",
        "--keep-going",
    ]


def test_the_form_of_bugs_asks_for_what_the_doctor_says():
    fields = {field["id"]: field for field in read(".github/ISSUE_TEMPLATE/bug.yml")["body"]}
    assert fields["doctor"]["validations"]["required"]
    assert "xmlgp doctor" in fields["doctor"]["attributes"]["label"]


def test_the_form_of_bugs_shows_prose_as_prose():
    fields = read(".github/ISSUE_TEMPLATE/bug.yml")["body"]
    assert [field["id"] for field in fields if "render" in field["attributes"]] == ["output", "doctor"]
