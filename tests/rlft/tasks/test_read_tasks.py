"""Rows read in one go, without dealing them to splits: for trying an environment on a few tasks."""

import json

import pytest

from rlft.config import SourceConfig
from rlft.errors import TaskError
from rlft.tasks import read_tasks


def source(folder, *rows, **fields):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return SourceConfig(source="jsonl", path=str(path), **fields)


def test_one_row_is_enough_and_it_is_info(tmp_path):
    row = {"q": "1+1", "a": 2, "k": 7, "x": "y"}
    (task,) = read_tasks(source(tmp_path, row, prompt="q", answer="a", id="k"), environment="e.py:E")
    assert (task.id, task.environment, task.answer, task.info, task.split) == ("7", "e.py:E", 2, row, "train")
    assert task.prompt == ({"role": "user", "content": "1+1"},)


def test_order_stays_repetitions_go_and_a_split_column_decides(tmp_path):
    rows = [{"prompt": text, "answer": text} for text in ("b", "a", "b")]
    assert [task.answer for task in read_tasks(source(tmp_path, *rows), environment="e")] == ["b", "a"]
    rows = [{"prompt": split, "answer": "1", "split": split} for split in ("test", "train")]
    assert {task.split for task in read_tasks(source(tmp_path, *rows), environment="e")} == {"train", "test"}


def test_a_bad_row_is_an_error_with_its_line(tmp_path):
    with pytest.raises(TaskError, match=r"rows\.jsonl:2: has no prompt"):
        read_tasks(source(tmp_path, {"prompt": "x"}, {"answer": "y"}), environment="e")
