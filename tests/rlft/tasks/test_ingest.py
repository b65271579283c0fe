import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlft.config import TasksConfig
from rlft.errors import TaskError
from rlft.evaluation.gates import gate_id
from rlft.tasks import ingest_tasks
from rlft.tasks.ingest import fingerprint_tasks
from rlft.types import SPLITS, Task, TaskSet

Rows = list[dict[str, Any]]
SPLITS_TEN = {"train": 7, "validation": 1, "gate": 1, "test": 1}


def sums(count: int, **more: Any) -> Rows:
    return [{"question": f"{number} + {number}?", "answer": str(2 * number), **more} for number in range(count)]


def write(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def ingest(path: Path, *, seed: int = 0, **more: Any) -> TaskSet:
    config = {"source": "jsonl", "path": str(path), "splits": SPLITS_TEN, **more}
    return ingest_tasks(TasksConfig.model_validate(config), environment="my_env.py:Env", seed=seed)


def test_a_file_from_end_to_end(tmp_path: Path):
    rows = sums(100)
    tasks = ingest(write(tmp_path / "sums.jsonl", rows))
    # 100 groups of one row, chances 7:1:1:1
    assert tasks.notes == {
        "tasks": {
            "source": f"jsonl {tmp_path}/sums.jsonl",
            "split_by": "dealt by group",
            "duplicates_dropped": {},
            "without_answer": 0,
            "bad_rows": [],
        },
        "rows_per_split": {"train": 73, "validation": 6, "gate": 11, "test": 10},
    }
    assert {task.prompt[0]["content"]: task.answer for task in tasks.tasks} == {
        row["question"]: row["answer"] for row in rows
    }
    assert [task.split for task in tasks.tasks] == sorted((t.split for t in tasks.tasks), key=SPLITS.index)
    assert {task.environment for task in tasks.tasks} == {"my_env.py:Env"}


def test_an_edited_template_or_answer_moves_no_row_and_makes_no_gate_new(tmp_path: Path):
    # "Answer briefly." in the prompt had put 179 train tasks into a gate of 264, and "42 " for "42" made a gate new.
    path = write(tmp_path / "sums.jsonl", sums(300))
    before = ingest(path)
    for edited in (
        {"prompt": "{question} Answer briefly."},
        {"prompt": "Question: {question}", "answer": "{answer} "},
        {"answer": "The answer is {answer}"},
        {"prompt": "question"},
    ):
        after = ingest(path, **edited)
        assert [(t.question_key, t.split, t.group) for t in after.tasks] == [
            (t.question_key, t.split, t.group) for t in before.tasks
        ]
        assert gate_id(after.split("gate")) == gate_id(before.split("gate"))


def test_the_same_rows_from_jsonl_csv_and_parquet_are_the_same_tasks(tmp_path: Path):
    rows = sums(20)
    write(tmp_path / "x.jsonl", rows)
    with (tmp_path / "x.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["question", "answer"])
        writer.writeheader()
        writer.writerows(rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    sets = [ingest(tmp_path / f"x.{kind}", source=kind) for kind in ("jsonl", "csv", "parquet")]
    assert len({tasks.fingerprint for tasks in sets}) == 1


def test_ids_do_not_depend_on_where_a_row_stands(tmp_path: Path):
    rows = sums(20)
    forward = ingest(write(tmp_path / "a.jsonl", rows))
    backward = ingest(write(tmp_path / "b.jsonl", rows[::-1]))
    assert {task.id: task.split for task in forward.tasks} == {task.id: task.split for task in backward.tasks}


def test_the_seed_deals(tmp_path: Path):
    path = write(tmp_path / "x.jsonl", sums(100))
    assert ingest(path, seed=1) == ingest(path, seed=1)
    assert ingest(path, seed=1).fingerprint != ingest(path, seed=2).fingerprint


def test_bad_rows_within_the_allowance_are_noted(tmp_path: Path):
    path = write(tmp_path / "x.jsonl", [*sums(20), {"question": ""}, {"other": 1}])
    with path.open("a") as file:
        file.write("not json\n")
    tasks = ingest(path, max_bad_rows=3)
    assert sum(tasks.notes["rows_per_split"].values()) == 20
    assert [(bad["place"], bad["reason"][:18]) for bad in tasks.notes["tasks"]["bad_rows"]] == [
        ("x.jsonl:23", "is not JSON: Expec"),
        ("x.jsonl:21", "has an empty promp"),
        ("x.jsonl:22", "has no prompt: non"),
    ]
    with pytest.raises(TaskError, match=r"3 bad rows, 2 allowed:\n  x.jsonl:23: is not JSON"):
        ingest(path, max_bad_rows=2)


def test_duplicate_explicit_ids_are_bad_rows(tmp_path: Path):
    path = write(tmp_path / "x.jsonl", [{**row, "key": number % 3} for number, row in enumerate(sums(4))])
    with pytest.raises(TaskError, match=r"1 bad rows, 0 allowed:\n  x\.jsonl:4: has the id '0' of x\.jsonl:1"):
        ingest(path, id="key")


def test_exact_duplicates_are_dropped_and_counted(tmp_path: Path):
    tasks = ingest(write(tmp_path / "x.jsonl", [*sums(20), *sums(5, note="again")]))
    assert len(tasks.tasks) == 20
    dropped = tasks.notes["tasks"]["duplicates_dropped"]
    assert sum(dropped.values()) == 5
    assert all(reason.endswith(": repeated") for reason in dropped)


def test_configured_groups_stay_together_and_shared_prompts_leave_train(tmp_path: Path):
    # 20 groups of 5 rows; every group also holds one prompt that all groups share.
    rows = [{**row, "set": number // 5} for number, row in enumerate(sums(100))]
    rows += [{"question": "1 apple and 1 apple?", "answer": "2", "set": number} for number in range(20)]
    tasks = ingest(write(tmp_path / "x.jsonl", rows), group="set")
    splits_of_group = {task.group: set[str]() for task in tasks.tasks}
    for task in tasks.tasks:
        splits_of_group[task.group].add(task.split)
    assert len(splits_of_group) == 20
    assert all(len(splits) == 1 for splits in splits_of_group.values())
    # The shared prompt stays once, in test; the other 19 are dropped.
    assert [task.split for task in tasks.tasks if "apple" in task.prompt[0]["content"]] == ["test"]
    assert sum(tasks.notes["tasks"]["duplicates_dropped"].values()) == 19


def test_a_split_column_with_our_names_is_respected(tmp_path: Path):
    rows = [{**row, "split": SPLITS[number % 5]} for number, row in enumerate(sums(10))]
    rows.append({"question": "0  +  0?", "answer": "0", "split": "test"})  # row 0 is train's
    tasks = ingest(write(tmp_path / "x.jsonl", rows))
    assert tasks.notes["rows_per_split"] == {
        "train": 1,
        "validation": 2,
        "gate": 2,
        "test": 3,
        "off_distribution": 2,
    }
    assert tasks.notes["tasks"]["split_by"] == "taken from the column `split`"
    assert tasks.notes["tasks"]["duplicates_dropped"] == {"train: also in test": 1}
    assert all(task.info["split"] == task.split for task in tasks.tasks)
    with pytest.raises(TaskError, match=r"group 'one' stands in train and in validation"):
        ingest(write(tmp_path / "y.jsonl", [{**row, "set": "one"} for row in rows]), group="set")
    with pytest.raises(TaskError, match=r"no tasks for gate(.|\n)*column `split`"):
        ingest(write(tmp_path / "z.jsonl", [row for row in rows if row["split"] != "gate"]))


@pytest.mark.parametrize("names", [("training", "testing"), ("Train", "Test"), ("train ", "test "), ("easy", "hard")])
def test_a_split_column_with_other_names_alone_is_refused(names: tuple[str, str], tmp_path: Path):
    rows = [{**row, "split": names[number % 2]} for number, row in enumerate(sums(20))]
    with pytest.raises(TaskError) as raised:
        ingest(write(tmp_path / "x.jsonl", rows))
    # 20 rows have two reasons; that other rows name a split is not said, as none does
    first, *lines = raised.value.what.splitlines()
    assert first == "20 bad rows, 0 allowed:"
    assert [line.split(" in the column")[0] for line in lines] == [
        f"  x.jsonl:{number}: has {name!r}" for number, name in enumerate(names, start=1)
    ]
    assert "other rows" not in raised.value.what


@pytest.mark.parametrize("split", [{"split": True}, {}])
def test_rows_that_differ_by_case_or_space_are_all_kept_if_their_answers_differ(tmp_path: Path, split: dict[str, bool]):
    # In FEN upper case is white: 3 pieces of 2 colours are 8 questions for each of 60 places, with 0 to 3 as answers.
    pieces = [f"{a}{place}{b}1{c}" for place in range(60) for a in "pP" for b in "kK" for c in "qQ"]
    rows: Rows = [{"prompt": f"White pieces? {each}", "answer": sum(map(str.isupper, each))} for each in pieces]
    if split:
        rows = [{**row, "split": SPLITS[row["answer"]]} for row in rows]
    tasks = ingest(write(tmp_path / "fen.jsonl", rows))
    assert len(tasks.tasks) == 480
    assert tasks.notes["tasks"]["duplicates_dropped"] == {}
    # One of them again in other letters: with the same answer it is a copy, in another split it is dropped.
    again = {"prompt": "white PIECES? p0k1q", "answer": "0", "split": "test"}
    if split:
        tasks = ingest(write(tmp_path / "fen.jsonl", [*rows, again]))
        assert tasks.notes["tasks"]["duplicates_dropped"] == {"train: also in test": 1}
        again["prompt"], again["answer"] = rows[0]["prompt"], "none"  # the same to the letter
        tasks = ingest(write(tmp_path / "fen.jsonl", [*rows, again]))
        assert tasks.notes["tasks"]["duplicates_dropped"] == {"train: also in test": 1}


@pytest.mark.parametrize("odd", [None, "Train", "val", ["test"]])
def test_a_row_whose_split_is_none_of_ours_is_a_bad_row(odd: Any, tmp_path: Path):
    rows = [{**row, "split": SPLITS[number % 4]} for number, row in enumerate(sums(20))]
    path = write(tmp_path / "x.jsonl", [*rows, {"question": "one more", "answer": "a", "split": odd}])
    with pytest.raises(TaskError, match=r"x\.jsonl:21: .*`split`"):
        ingest(path)
    tasks = ingest(path, max_bad_rows=1)
    assert all(task.info["split"] == task.split for task in tasks.tasks)


def test_too_small_a_file_says_what_to_change(tmp_path: Path):
    with pytest.raises(TaskError, match=r"no tasks for .*(.|\n)*raise the counts"):
        ingest(write(tmp_path / "x.jsonl", sums(2)))


def test_off_distribution_is_a_sample_without_what_other_splits_hold(tmp_path: Path):
    main = write(tmp_path / "main.jsonl", sums(20))
    other = write(tmp_path / "other.jsonl", [{**row, "split": "train"} for row in sums(30)])
    off = {"source": "jsonl", "path": str(other)}
    tasks = ingest(main, off_distribution=off, off_distribution_count=4)
    # 30 rows, of which 20 stand in the main file: 10 are left, 4 are taken
    assert tasks.notes["rows_per_split"]["off_distribution"] == 4
    dropped = tasks.notes["off_distribution"]["duplicates_dropped"]
    assert dropped == {
        "off_distribution: also in train": 13,
        "off_distribution: also in validation": 1,
        "off_distribution: also in gate": 5,
        "off_distribution: also in test": 1,
    }
    assert all(int(task.answer) >= 40 and task.info["split"] == "train" for task in tasks.split("off_distribution"))
    with pytest.raises(TaskError, match="every off-distribution task also stands in another split"):
        ingest(main, off_distribution={"source": "jsonl", "path": str(main)})


def test_only_answers_that_some_tasks_have_are_missed(tmp_path: Path, caplog):
    # Where no row has an answer the check is code: "2900 tasks have no answer" was said of such a run.
    ingest(write(tmp_path / "code.jsonl", [{"question": f"a word with {n} letters?"} for n in range(20)]))
    ingest(write(tmp_path / "all.jsonl", sums(20)))
    assert caplog.messages == []
    ingest(write(tmp_path / "some.jsonl", [*sums(20), {"question": "and this?"}]))
    assert [message.split()[:3] for message in caplog.messages] == [["1", "of", "21"]]


def test_off_distribution_bad_rows_and_ids_count_too(tmp_path: Path):
    main = write(tmp_path / "main.jsonl", [{**row, "key": row["answer"]} for row in sums(20)])
    other = write(tmp_path / "other.jsonl", [{"question": "new?", "key": "0"}, {"question": "newer?", "key": "n"}])
    off = {"source": "jsonl", "path": str(other), "id": "key"}
    with pytest.raises(TaskError, match=r"other\.jsonl:1: has the id '0' of a task from the main source"):
        ingest(main, id="key", off_distribution=off)
    notes = ingest(main, id="key", off_distribution=off, max_bad_rows=1).notes
    assert notes["tasks"]["bad_rows"] == []
    assert [bad["place"] for bad in notes["off_distribution"]["bad_rows"]] == ["other.jsonl:1"]
    assert notes["off_distribution"]["without_answer"] == 1


def test_a_generator_from_end_to_end():
    config = TasksConfig.model_validate(
        {
            "source": "reasoning_gym",
            "generator": "chain_sum",
            "generator_kwargs": {"max_terms": 3, "max_digits": 1},
            "prompt": "{metadata[expression]} =",
            "splits": {"train": 300, "validation": 20, "gate": 30, "test": 40},
            "off_distribution": {
                "source": "reasoning_gym",
                "generator": "chain_sum",
                "generator_kwargs": {"min_terms": 4, "max_terms": 4, "max_digits": 1},
                "prompt": "{metadata[expression]} =",
            },
            "off_distribution_count": 50,
        }
    )
    tasks = ingest_tasks(config, environment="e:E", seed=5)
    assert tasks == ingest_tasks(config, environment="e:E", seed=5)
    assert tasks.notes["rows_per_split"] == {
        "train": 300,
        "validation": 20,
        "gate": 30,
        "test": 40,
        "off_distribution": 50,
    }
    prompts = [task.prompt[0]["content"] for task in tasks.tasks]
    assert len(set(prompts)) == len(prompts) == len(tasks.by_id())
    for task in tasks.tasks:
        # three terms at most, and four off distribution: "1 + 2 - 3 =" has terms at the even places
        terms = task.prompt[0]["content"].removesuffix(" =").split()[::2]
        assert (len(terms) == 4) == (task.split == "off_distribution")
        assert task.info["entry"]["metadata"]["num_terms"] == len(terms)
    json.dumps([tasks.notes, [task.info for task in tasks.tasks]], allow_nan=False)


def test_the_groups_of_a_generator_stay_together():
    config = {
        "source": "reasoning_gym",
        "generator": "chain_sum",
        "generator_kwargs": {"min_terms": 2, "max_terms": 60},
        "group": "metadata.num_terms",
        "splits": SPLITS_TEN,
    }
    tasks = ingest_tasks(TasksConfig.model_validate(config), environment="e:E", seed=0)
    assert len({(task.group, task.split) for task in tasks.tasks}) == len({task.group for task in tasks.tasks})


def test_a_broken_template_names_its_setting(tmp_path: Path):
    with pytest.raises(TaskError, match=r"tasks\.prompt: '\{question' is not a template"):
        ingest(tmp_path / "never-opened.jsonl", prompt="{question")


def test_fingerprint_by_value():
    task = Task("i", "e:E", ({"role": "user", "content": "é"},), None, {"b": 1, "a": 2}, "test", "g", "q")
    # printf '["i","e:E",[{"content":"é","role":"user"}],null,{"a":2,"b":1},"test","g","q"]\n' | sha256sum
    assert fingerprint_tasks([task]) == "e1bfd0494e0b3032ca99dc237a714e7fb527d5c3397bb995917b4105974ab6a5"


def test_fingerprint_sees_every_field_and_the_order():
    first = Task("i", "e:E", ({"role": "user", "content": "q"},), 1, {}, "test", "g")
    changed = [
        replace(first, **change)
        for change in (
            {"id": "j"},
            {"environment": "e:F"},
            {"prompt": ({"role": "user", "content": "Q"},)},
            {"answer": "1"},
            {"info": {"a": None}},
            {"split": "gate"},
            {"group": "h"},
            {"question_key": "q"},
        )
    ]
    sets = [[first], [], [first, changed[0]], [changed[0], first], *([task] for task in changed)]
    assert len({fingerprint_tasks(tasks) for tasks in sets}) == len(sets)


def several(tmp_path: Path, rows: dict[str, Rows], **more: dict[str, Any]) -> TaskSet:
    """The tasks of environments by their names, each with rows of its own and `more` settings."""
    members = {
        name: {"source": "jsonl", "path": str(write(tmp_path / f"{name}.jsonl", own)), "splits": SPLITS_TEN}
        | more.get(name, {})
        for name, own in rows.items()
    }
    config = TasksConfig.model_validate({"source": "environments", "members": members})
    return ingest_tasks(config, environment="several", seed=99)


def test_tasks_of_several_environments_are_one_set(tmp_path: Path):
    rows = {"sums": sums(100), "odd": [{"prompt": f"is {n} odd?"} for n in range(50)]}
    tasks = several(tmp_path, rows, odd={"seed": 7})
    alone = ingest(tmp_path / "odd.jsonl", seed=7)  # the split of one does not depend on the other
    odd = [task for task in tasks.tasks if task.environment == "odd"]
    assert [(task.split, task.text) for task in odd] == [(task.split, task.text) for task in alone.tasks]
    assert all(task.id.startswith("odd/") and task.group.startswith("odd/") for task in odd)
    assert len(tasks.by_id()) == 150
    assert [task.split for task in tasks.tasks] == sorted((t.split for t in tasks.tasks), key=SPLITS.index)
    assert tasks.notes["tasks"] == {
        "source": f"sums: jsonl {tmp_path}/sums.jsonl; odd: jsonl {tmp_path}/odd.jsonl",
        "without_answer": 50,
    }
    assert set(tasks.notes["environments"]) == {"sums", "odd"}
    assert tasks.notes["environments"]["odd"] == alone.notes
    assert sum(tasks.notes["rows_per_split"].values()) == 150
    assert tasks.fingerprint == fingerprint_tasks(tasks.tasks)


def test_a_prompt_may_be_in_the_same_split_of_two_environments(tmp_path: Path):
    tasks = several(tmp_path, {"one": sums(30), "two": sums(30)})
    splits = {name: [t.split for t in tasks.tasks if t.environment == name] for name in ("one", "two")}
    assert splits["one"] == splits["two"]
    assert len(tasks.by_id()) == 60


def test_a_prompt_in_different_splits_of_two_environments_is_refused(tmp_path: Path):
    with pytest.raises(TaskError, match=r"one has a prompt in \w+ that two has in \w+ .*what is trained on") as refused:
        several(tmp_path, {"one": sums(30), "two": sums(30)}, two={"seed": 5})
    assert "same tasks.seed" in refused.value.fix


def test_an_error_in_the_tasks_of_one_environment_is_told(tmp_path: Path):
    with pytest.raises(TaskError, match=r"two.jsonl"):
        several(tmp_path, {"one": sums(30), "two": [{"nothing": 1}] * 20})
