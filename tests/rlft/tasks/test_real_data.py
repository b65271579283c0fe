"""Real rows with their oddities: curly characters, line separators, groups. Row counts are those of SOURCE.md."""

import json
from pathlib import Path

import pytest

from rlft.config import TasksConfig
from rlft.tasks import ingest_tasks
from rlft.types import TaskSet

SPLITS = {"train": 80, "validation": 5, "gate": 5, "test": 10}


def ingest(path: Path, **more: object) -> TaskSet:
    config = {"source": "jsonl", "path": str(path), "id": "id", "group": "group", "splits": SPLITS, **more}
    return ingest_tasks(TasksConfig.model_validate(config), environment="e:E", seed=0)


def assert_groups_stay_together(tasks: TaskSet) -> None:
    pairs = {(task.group, task.split) for task in tasks.tasks}
    assert len(pairs) == len({group for group, _ in pairs})


@pytest.mark.slow
def test_gsm8k(shared_data: Path):
    tasks = ingest(shared_data / "gsm8k" / "train.jsonl", answer="final")
    # 5967 rows, no exact duplicates; the chances are 80, 5, 5 and 10 of 100. Groups are small, so 100 rows are at least
    # three standard deviations (31, 17, 17 and 23 rows).
    assert len(tasks.tasks) == 5967
    assert tasks.notes["tasks"]["duplicates_dropped"] == {}
    got = tasks.notes["rows_per_split"]
    expected = {"train": 4773.6, "validation": 298.35, "gate": 298.35, "test": 596.7}
    assert all(abs(got[name] - expected[name]) < 100 for name in expected)
    assert_groups_stay_together(tasks)
    first = tasks.by_id()["gsm8k-train-00001"]
    assert first.prompt[0]["content"].startswith("Natalia sold clips to 48 of her friends")
    assert first.answer == "72"
    rows = [json.loads(line) for line in (shared_data / "gsm8k" / "train.jsonl").open()]
    assert {task.id: task.info for task in tasks.tasks} == {row["id"]: row for row in rows}
    assert all(task.answer.lstrip("-").isdigit() for task in tasks.tasks)


def test_search_xquad(shared_data: Path):
    tasks = ingest(shared_data / "search_xquad" / "questions.jsonl", answer="answers")
    assert len(tasks.tasks) == 962 - sum(tasks.notes["tasks"]["duplicates_dropped"].values())
    assert_groups_stay_together(tasks)
    task = tasks.by_id()["xq-56beb7953aeaaa14008c92ab"]
    assert task.prompt == ({"role": "user", "content": "Who lost to the Broncos in the divisional round?"},)
    assert (task.answer, task.group) == (["Pittsburgh Steelers"], "166d96f9d6cd")
    assert (task.info["gold_doc_ids"], task.info["answer_start"]) == (["xq-01-2"], 25)
    assert (task.info["question"], task.info["answers"]) == (task.text, task.answer)


@pytest.mark.slow
def test_press_releases_with_line_separators_in_the_file(shared_data: Path, tmp_path: Path):
    # The file escapes U+2028; written as it is, `splitlines` would cut each of these rows into pieces.
    rows = [json.loads(line) for line in (shared_data / "isaf_press_releases" / "incidents.jsonl").open()]
    path = tmp_path / "unescaped.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    assert len(path.read_text(encoding="utf-8").splitlines()) > len(rows) == 546
    tasks = ingest(path, answer="gold_norm")
    assert len(tasks.tasks) == 546
    assert {task.id: task.prompt[0]["content"] for task in tasks.tasks} == {row["id"]: row["text"] for row in rows}
