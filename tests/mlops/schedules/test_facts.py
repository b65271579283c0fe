"""What the reasons to run are about: real files, a real MLflow."""

from __future__ import annotations

import json
from dataclasses import replace

import mlflow
import pytest
import yaml
from mlflow import MlflowClient

from mlops.registry.conversations import Conversations
from mlops.schedules.facts import ABSENT, Asked, asked_score, look, score_in
from mlops.schedules.reasons import Score
from rlft.errors import ConfigError, RlftError, TaskError
from tests.mlops.registry.small_policy import SmallRegistry
from tests.mlops.runs.test_use_traces import exchange

CONFIG = {
    "name": "capitals",
    "tasks": {"source": "jsonl", "path": "capitals.jsonl", "prompt": "question", "answer": "answer"},
    "environment": {"name": "rlft.environments.patterns:Patterns"},
    "policy": {"model": "./none"},
}
SMALL = {"promotion": {"name": "small"}}
SUITE = {
    "name": "fresh",
    "scenarios": {"use": {"tasks": CONFIG["tasks"], "environment": CONFIG["environment"], "splits": ["test"]}},
}


def write_tasks(bench, count: int) -> None:
    rows = [json.dumps({"question": f"Capital of {number}?", "answer": f"C{number}"}) for number in range(count)]
    (bench.place / "capitals.jsonl").write_text("\n".join(rows))


@pytest.fixture
def look_at(bench, monkeypatch):
    """Looks with these reasons, in the folder of the schedule."""
    monkeypatch.chdir(bench.place)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///never-used.db")
    (bench.place / "demo.yaml").write_text(yaml.safe_dump(CONFIG))
    (bench.place / "fresh.yaml").write_text(yaml.safe_dump(SUITE))
    write_tasks(bench, 40)
    bench.home.make()

    def found(**when):
        return look(bench.home, bench.apply(when=when))

    yield found
    mlflow.set_tracking_uri(None)


def test_new_tasks_are_new_rows_of_the_train_split(bench, look_at):
    before = look_at(new_tasks={}).tasks
    assert look_at(new_tasks={}).tasks == before
    rows = (bench.place / "capitals.jsonl").read_text().splitlines()
    (bench.place / "capitals.jsonl").write_text("\n".join(reversed(rows)))
    assert look_at(new_tasks={}).tasks == before  # where a row stands is no matter
    write_tasks(bench, 60)
    after = look_at(new_tasks={}).tasks
    assert before < after  # rows that are added move none
    assert 0 < len(after - before) <= 20


@pytest.mark.slow
def test_new_tasks_from_use_are_new_tasks(bench, look_at):
    """Conversations with a served model, which a run would take beside the tasks of the file."""
    use = {"experiment": "small-served", "gold": "none", "validation_share": 0}
    (bench.place / "demo.yaml").write_text(yaml.safe_dump(CONFIG | {"tasks": CONFIG["tasks"] | {"use": use}}))
    file = look_at(new_tasks={}).tasks  # the home has no MLflow, and nobody has asked anything
    logged = Conversations(bench.home.tracking_uri, "small", mask=())
    logged.start()
    for number in (1, 2, 3):
        logged.add(exchange(number, minute=number))
    logged.add(replace(exchange(2, minute=4), key=bytes([9] * 16)))
    logged._queue.put(None)
    logged._thread.join(120)
    assert logged.lost == 0
    found = look_at(new_tasks={}).tasks
    assert (len(found - file), file - found) == (3, set())  # the second question was asked twice


def test_another_answer_is_a_new_task(bench, look_at):
    before = look_at(new_tasks={}).tasks
    text = (bench.place / "capitals.jsonl").read_text()
    (bench.place / "capitals.jsonl").write_text(text.replace('"C', '"D'))
    assert look_at(new_tasks={}).tasks.isdisjoint(before)


def test_tasks_that_cannot_be_read_are_told(bench, look_at):
    (bench.place / "capitals.jsonl").unlink()
    with pytest.raises(TaskError, match="no such file"):
        look_at(new_tasks={})


def test_a_file_is_its_content(bench, look_at):
    (bench.place / "rules.txt").write_text("a")
    first = look_at(changed={"files": ["rules.txt", "absent.txt"]}).values
    assert first["file absent.txt"] == ABSENT
    (bench.place / "rules.txt").write_text("b")
    second = look_at(changed={"files": ["rules.txt", "absent.txt"]}).values
    assert first["file rules.txt"] != second["file rules.txt"]
    (bench.place / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        look_at(changed={"files": ["folder"]})


def test_in_a_home_without_mlflow_nothing_is_there(look_at):
    found = look_at(changed={"aliases": ["models:/base@production"]})
    assert found.values == {"alias models:/base@production": ABSENT}


def test_an_alias_is_the_version_that_it_names(bench, look_at):
    registry = SmallRegistry(bench.home.root)
    registry.register()
    client = MlflowClient(bench.home.tracking_uri)
    alias = "alias models:/small@production"
    assert look_at(changed={"aliases": ["models:/small@production"]}).values == {alias: ABSENT}
    client.set_registered_model_alias("small", "production", "1")
    assert look_at(changed={"aliases": ["models:/small@production"]}).values == {alias: "1"}


@pytest.fixture
def asked(bench, look_at):
    """Returns whose score is asked for, in a config that registers `small`."""
    (bench.place / "demo.yaml").write_text(yaml.safe_dump(CONFIG | SMALL))

    def found(**change):
        stored = bench.apply(when={"score_below": {"suite": "fresh.yaml", "bound": 0.5} | change})
        return asked_score(bench.home, stored, stored.schedule.when.score_below)

    return found


def test_the_score_that_is_asked_for_is_that_of_the_champion_on_the_suites_tasks(bench, asked):
    assert asked() is None  # there is no champion
    registry = SmallRegistry(bench.home.root)
    registry.register()
    first = asked()
    assert (first.model, first.cell, first.metric) == ("models:/small/1", "use", "accuracy")
    write_tasks(bench, 60)
    second = asked()
    registry.register()
    third = asked()
    assert third.model == "models:/small/2"
    assert len({first.key, second.key, third.key}) == 3
    assert asked() == third


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scenario": "other"}, "no such scenario"),
        ({"suite": "no.yaml"}, "no such file"),
    ],
)
def test_a_suite_that_does_not_have_what_is_asked_for_is_told(asked, change, said):
    with pytest.raises(ConfigError, match=said):
        asked(**change)


def test_the_score_is_read_from_the_summary_of_an_evaluation():
    metric = {"accuracy": {"mean": 0.4, "low": 0.3, "high": 0.5, "effective_groups": 5.5}}
    measured = {"tasks": 7, "attempts": 14, "errors": {"engine": 2}, "metrics": metric}
    summary = {"scenarios": {"use": {"small-1": {"splits": {"test": measured}}}}}
    of = Asked("models:/small/1", "use", "accuracy", "key")
    assert score_in(summary, of) == Score("models:/small/1", 0.4, 0.3, 0.5, 7, groups=5.5, errors=1 / 7)
    measured["metrics"] = {}
    with pytest.raises(RlftError, match="no attempt of models:/small/1 has a score"):
        score_in(summary, of)
