import json
from dataclasses import replace

import pytest

from rlft.config import WarmStartConfig
from rlft.errors import TaskError
from rlft.training.demonstration_file import check_overlap, read_demonstrations
from rlft.types import TaskSet
from tests.rlft.attempts import make_task

TASKS = TaskSet(
    tuple(
        replace(make_task(f"{split}{n}", f"{split}  question {n}", "a"), split=split)
        for split in ("train", "validation", "gate", "test")
        for n in range(3)
    ),
    "f",
)


def file_of(tmp_path, *prompts):
    rows = [
        {"messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": "a"}]} for prompt in prompts
    ]
    path = tmp_path / "shown.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_what_is_measured_is_not_demonstrated(tmp_path):
    path = file_of(tmp_path, "train question 0", "gate question 1\n", " test\tquestion 2", "test question 2", "another")
    with pytest.raises(TaskError, match="1 of gate, 1 of test, such as 'gate question 1'") as caught:
        check_overlap(WarmStartConfig(path=str(path), steps=1), TASKS)
    assert caught.value.where == str(path)
    assert "warm_start.allow_overlap" in str(caught.value.fix)


def test_it_can_be_allowed_and_is_then_told(tmp_path, caplog):
    path = file_of(tmp_path, "gate question 1", "validation question 0", "validation question 2")
    settings = WarmStartConfig(path=str(path), steps=1, allow_overlap=True)
    assert check_overlap(settings, TASKS) == {"gate": 1, "validation": 2}
    assert "2 of validation, 1 of gate" in caplog.text


def test_tasks_that_are_trained_on_may_be_demonstrated(tmp_path):
    path = file_of(tmp_path, "train question 0", "gate question 17")
    assert check_overlap(WarmStartConfig(path=str(path), steps=1), TASKS) == {}
    assert check_overlap(WarmStartConfig(steps=1), TASKS) == {}


def test_of_a_long_file_a_sample_is_taken_that_is_always_the_same(tmp_path):
    path = file_of(tmp_path, *(f"question {n}" for n in range(200)))
    some = read_demonstrations(path, 20)
    places = [int(shown.prompt[0]["content"].split()[1]) for shown in some]
    assert places == sorted(set(places))
    assert len(places) == 20
    assert max(places) > 100  # the chance that 20 of 200 are all of the first half is one in a million
    assert read_demonstrations(path, 20) == some
    assert read_demonstrations(path, 200) == read_demonstrations(path)
