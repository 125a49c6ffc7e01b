"""Projects: how they are described, models that are replaced, and learning."""

import os
import shutil
from datetime import datetime, timezone

import pytest

import xmlgp
from tests.serving.test_refusals import check_problem
from tests.serving.toy import texts_and_labels
from xmlgp.model_folder.folder import lock_model_folder
from xmlgp.runtime.errors import NumericalError, SettingsError
from xmlgp.serving import projects
from xmlgp.serving.projects import Project
from xmlgp.serving.requests import Parameters

PROJECTS = "/v1/projects"
LEARN = f"{PROJECTS}/own/learn"
TOKEN = {"Authorization": "Bearer t"}
TEXTS, NAMES = texts_and_labels(6, seed=9)
DOCUMENTS = [
    {"text": text, "subjects": [{"uri": name, "label": "any"} for name in own], "metadata": {}}
    for text, own in zip(TEXTS, NAMES, strict=True)
]


@pytest.fixture
def path(model, tmp_path):
    return shutil.copytree(model, tmp_path / "own")


def probabilities(project):
    (found,) = project.suggest([TEXTS[0]], Parameters())
    return [own["probability"] for own in found]


def predicted(path):
    (found,) = xmlgp.predict(path, [TEXTS[0]], k=10, output="probability", with_std=True)
    return [own["probability"] for own in found["labels"]]


def test_projects_are_described_as_annif_does(client, model):
    (project,) = client.get(PROJECTS).json()["projects"]
    assert client.get(f"{PROJECTS}/tickets").json() == project
    modified = datetime.fromtimestamp((model / "model.json").stat().st_mtime, timezone.utc)
    told = datetime.fromisoformat(project.pop("modification_time").replace("Z", "+00:00"))
    assert abs((told - modified).total_seconds()) < 1e-3
    assert project == {
        "project_id": "tickets",
        "name": "tickets",
        "language": "und",
        "backend": {"backend_id": "xmlgp"},
        "vocab": {"vocab_id": "tickets", "languages": [], "size": 5, "loaded": True},
        "vocab_language": None,
        "is_trained": True,
        "learns": False,
        "explains": True,
    }


def test_a_model_that_is_replaced_is_taken_up(path, other_model, model):
    project = Project(path)
    project.open()
    assert probabilities(project) == predicted(model)
    xmlgp.load(other_model).save(path)
    project.reload()
    assert probabilities(project) == predicted(other_model) != predicted(model)


def test_what_another_worker_learned_is_known_to_the_next_request(path):
    ours, theirs = Project(path), Project(path)
    for project in (ours, theirs):
        project.open()
    theirs.learn(["The aquarium of the lobby leaks"], [["aquarium"]])
    (suggested,) = ours.suggest(["The aquarium of the lobby leaks"], Parameters(limit=3))
    assert "aquarium" in [label["label"] for label in suggested]


def test_a_link_to_a_model_is_a_project_of_its_own_name(model, other_model, tmp_path):
    (tmp_path / "current").symlink_to(model)
    project = Project(tmp_path / "current")
    project.open()
    assert project.id == "current"
    (tmp_path / "next").symlink_to(other_model)
    (tmp_path / "next").rename(tmp_path / "current")
    project.reload()
    assert probabilities(project) == predicted(other_model)


def test_a_damaged_or_missing_model_leaves_the_one_before_in_use(path, model, caplog):
    project, before = Project(path), (path / "model.json").read_bytes()
    project.open()
    (path / "new.json").write_text("{")
    os.replace(path / "new.json", path / "model.json")
    for _ in range(3):
        project.reload()
        assert probabilities(project) == predicted(model)
    assert [record.message.count("the model before stays in use") for record in caplog.records] == [1]
    (path / "model.json").unlink()
    project.reload()
    assert probabilities(project) == predicted(model)
    # It may come file by file: it is tried again until it can be opened.
    (path / "model.json").write_bytes(before)
    project.reload()
    assert probabilities(project) == predicted(model)


@pytest.fixture
def learning(client_of, path):
    return client_of(path, learns=True, token="t")


def test_documents_are_learned_as_by_the_command(learning, path, model, tmp_path):
    other = shutil.copytree(model, tmp_path / "other")
    new = [{"text": "printer zebra", "subjects": [{"label": "printing"}, {"uri": None, "label": "third floor"}]}]
    xmlgp.learn(other, [*TEXTS, "printer zebra"], labels=[*NAMES, ["printing", "third floor"]])
    answer = learning.post(LEARN, json=[*DOCUMENTS, *new], headers=TOKEN)
    assert (answer.status_code, answer.content) == (204, b"")
    found = learning.post(f"{PROJECTS}/own/suggest", data={"text": TEXTS[0]}, headers=TOKEN).json()["results"]
    assert "third floor" in [own["label"] for own in found]
    # The server learns on all cores, this process on one, which rounds differently.
    assert [own["probability"] for own in found] == pytest.approx(predicted(other), rel=1e-4)
    assert xmlgp.load(path).data["N"] == 127
    # A client that has lost the answer asks again.
    assert learning.post(LEARN, json=[*DOCUMENTS, *new], headers=TOKEN).status_code == 204
    assert xmlgp.load(path).data["N"] == 127


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"documents": []}, "the body is not a list of at least one document"),
        ([], "the body is not a list of at least one document"),
        ([{"text": "x"}], r"body\[0\].subjects is missing"),
        ([{"subjects": []}], r"body\[0\].text is missing"),
        ([{"text": "x", "subjects": ["a"]}], r"body\[0\].subjects\[0\] is not an object"),
        ([{"text": "x", "subjects": [{}]}], r"body\[0\].subjects\[0\].label is missing"),
        ([{"text": "x", "subjects": [{"uri": " "}]}], "empty label"),
    ],
)
def test_wrong_documents_are_refused(learning, body, reason):
    check_problem(learning.post(LEARN, json=body, headers=TOKEN), 400, reason)


def test_who_may_not_teach_does_not(client_of, learning, path, model):
    before = (path / "model.json").read_bytes()
    check_problem(learning.post(LEARN, json=DOCUMENTS), 401)
    asking = client_of(path, token="t")
    check_problem(asking.post(LEARN, json=DOCUMENTS, headers=TOKEN), 403, "without --learn")
    assert (path / "model.json").read_bytes() == before


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (SettingsError("{path}: cannot be learned on"), 400, "^own: cannot be learned on$"),
        (SettingsError("{path} keeps no points: `xmlgp train`"), 400, "^own keeps no points$"),
        (NumericalError("{path}: diverged"), 503, "^learning failed; the log of the server has the details$"),
        (OSError(28, "No space left on device", "/secret"), 503, "^learning failed; the log"),
    ],
)
def test_what_fails_is_told_without_paths(learning, path, monkeypatch, error, status, reason):
    def fails(*arguments, **options):
        raise type(error)(*(str(part).format(path=path) for part in error.args))

    monkeypatch.setattr(projects, "learn", fails)
    check_problem(learning.post(LEARN, json=DOCUMENTS, headers=TOKEN), status, reason)
    monkeypatch.undo()
    assert learning.post(f"{PROJECTS}/own/suggest", data={"text": "x"}, headers=TOKEN).status_code == 200


def test_a_model_learns_one_batch_at_a_time(learning, path, monkeypatch):
    with lock_model_folder(path):
        answer = learning.post(LEARN, json=DOCUMENTS, headers=TOKEN)
    check_problem(answer, 503, "the model is learning")
    assert answer.headers["retry-after"] == "10"
    inner = []

    def learns(*arguments, **options):
        inner.append(learning.post(LEARN, json=DOCUMENTS, headers=TOKEN))
        return xmlgp.load(path)

    monkeypatch.setattr(projects, "learn", learns)
    assert learning.post(LEARN, json=DOCUMENTS, headers=TOKEN).status_code == 204
    check_problem(inner[0], 503, "the model is learning")
