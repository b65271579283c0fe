"""Tasks of records of use: where they go, what is left out and why, and that all of it adds up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.config import TasksConfig
from rlft.evaluation.gates import prompt_key
from rlft.tasks import ingest_tasks
from rlft.tasks.contamination import text_of_demonstration
from rlft.tasks.use import Record, Said, Use, most_beside, split_of
from rlft.texts.privacy import LONGEST
from rlft.types import TaskSet

HALF = {"validation_share": 0.5, "max_share": 0.9}
LONG = "A train leaves the station at nine and reaches the sea by noon, how many hours does it take"


def record(question, answer="1", *, id=None, time=0, person="ana", **more):
    said = () if answer is None else (Said(person, "expectation", "expected_response", answer, 1),)
    messages = [{"role": "user", "content": question}]
    return Record(id or f"tr-{question}", {"messages": messages}, time=time, said=said, **more)


def ingest(tmp_path: Path, records, rows=(), *, train=100, use: dict | None = None, **fetched) -> TaskSet:
    """The tasks of a file beside records: so many of train and of validation, one of gate and of test, and `rows`."""
    own = [{"question": f"file {n}?", "answer": "0", "split": "train"} for n in range(train)]
    own += [{"question": f"measured {n}?", "answer": "0", "split": "validation"} for n in range(train)]
    own += [{"question": f"{name}?", "answer": "0", "split": name} for name in ("gate", "test")]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*own, *rows]))
    given = {"experiment": "e", "validation_share": 0.0} | (use or {})
    config = TasksConfig.model_validate({"source": "jsonl", "path": str(path), "use": given})
    fetched = Use("mlflow_traces e", tuple(records), **fetched)
    return ingest_tasks(config, environment="e:E", seed=0, use=fetched)


def asked(tasks: TaskSet, split="train"):
    """The questions of the tasks from use."""
    return [task.text for task in tasks.split(split) if "use_trace_id" in task.info]


def test_a_record_becomes_a_train_task(tmp_path):
    tasks = ingest(tmp_path, [record("1 + 1?", "2", id="tr-7")])
    (task,) = [task for task in tasks.tasks if "use_trace_id" in task.info]
    assert (task.prompt, task.answer, task.split, task.environment) == (
        ({"role": "user", "content": "1 + 1?"},),
        "2",
        "train",
        "e:E",
    )
    assert task.info == {"use_trace_id": "tr-7"}
    assert task.group == task.question_key == prompt_key(task.prompt)
    assert tasks.notes["rows_per_split"]["train"] == 101
    assert tasks.notes["use"] == {
        "source": "mlflow_traces e",
        "split_by": "a hash of the question",
        "found": 1,
        "taken": {"train": 1, "validation": 0},
        "left_out": {},
        "masked": {},
        "without_answer": 0,
    }


def test_without_records_the_tasks_are_those_of_the_source(tmp_path):
    with_none = ingest(tmp_path, [])
    config = TasksConfig.model_validate({"source": "jsonl", "path": str(tmp_path / "rows.jsonl")})
    assert ingest_tasks(config, environment="e:E", seed=0).fingerprint == with_none.fingerprint
    assert with_none.notes["use"]["found"] == 0


def left_out(tmp_path, records, **more):
    return ingest(tmp_path, records, **more).notes["use"]["left_out"]


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([record("a?", failed=True)], {"failed": 1}),
        ([Record("t", {"x": 1})], {"no_prompt": 1}),
        ([Record("t", {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})],
         {"not_a_question": 1}),
        ([record("a?", None)], {"no_gold": 1}),
        ([record("a?", "1"), record(" A? ", "2", id="t2", person="ben")], {"people_disagree": 2}),
        ([record("a?", 5), record("b?", {"a": 1}), record("c?", [1, 2]), record("d?", True)], {"other_gold": 4}),
        ([record("a?"), record("A?", None, id="t2"), record("a?", id="t3")], {"repeated": 2}),
        ([record("FILE 3?")], {"in_train": 1}),
        ([record("gate?"), record("test?"), record("measured 1?")], {"in_held_out": 3}),
    ],
)  # fmt: skip
def test_what_is_left_out_is_counted_with_its_reason(tmp_path, records, reason):
    tasks = ingest(tmp_path, records)
    assert tasks.notes["use"]["left_out"] == reason
    assert tasks.notes["use"]["found"] == len(records)


@pytest.mark.parametrize(
    ("split", "reason"),
    [("train", "near_train"), ("gate", "near_held_out"), ("test", "near_held_out"), ("validation", "near_held_out")],
)
def test_what_overlaps_with_a_row_of_the_file_is_left_out(tmp_path, split, reason):
    # 19 words in a row are shared, and the prompts differ
    rows = [{"question": f"{LONG}, by day?", "answer": "3", "split": split}]
    assert left_out(tmp_path, [record(f"{LONG}, roughly?")], rows=rows) == {reason: 1}


SHORT = "What is the capital of Peru?"


@pytest.mark.parametrize(
    "asked",
    [
        "What is the capital of P\u0435ru?",  # a Cyrillic letter
        "What is the capital of Pe\u200bru?",  # a space of no width
        " ".join(f"{word[0]}\u2060{word[1:]}" for word in f"{LONG}, by day?".split()),
        f"Dear model, {LONG.replace(' the sea', ' THE sea')}? Thank you very much.",
    ],
)
def test_a_held_out_question_in_disguise_is_left_out(tmp_path, asked):
    rows = [{"question": each, "answer": "3", "split": "gate"} for each in (SHORT, "5!", f"{LONG}, by day?")]
    others = [record("What is the capital of Chile?"), record("What is 5! divided by 5?")]
    found = left_out(tmp_path, [record(asked), *others], rows=rows)
    assert sum(found.values()) == 1
    assert set(found) <= {"in_held_out", "near_held_out"}


def test_what_is_demonstrated_is_left_out(tmp_path):
    shown = text_of_demonstration("demonstration 1", [{"role": "user", "content": f"{LONG}?"}], [])
    found = left_out(tmp_path, [record(f"{LONG}?"), record(f"Say: {LONG}, then?")], demonstrations=(shown,))
    assert found == {"in_demonstrations": 1, "near_demonstrations": 1}


def test_a_train_task_that_is_nearly_one_of_validation_is_left_out(tmp_path):
    def place(question):
        return split_of(prompt_key([{"role": "user", "content": question}]), 0.5)

    # Of each pair 14 words in a row are the same, and no other has them.
    stories = [" ".join(f"{word}x{chr(97 + n)}" for word in LONG.split()[:14]) for n in range(20)]
    pairs = [(f"{story} roughly?", f"{story} exactly?") for story in stories]
    parted = [pair for pair in pairs if place(pair[0]) != place(pair[1])]
    assert 0 < len(parted) < 20
    tasks = ingest(tmp_path, [record(each) for pair in pairs for each in pair], use=HALF)
    assert tasks.notes["use"]["left_out"] == {"near_held_out": len(parted)}
    measured = [each for pair in pairs for each in pair if place(each) == "validation"]
    assert sorted(asked(tasks, "validation")) == sorted(measured)


def test_answers_are_left_out_or_optional_if_the_settings_say_so(tmp_path):
    records = [record("a?", "1"), record("b?", None)]
    assert [t.answer for t in ingest(tmp_path, records, use={"gold": "optional"}).split("train")[-2:]] == ["1", None]
    tasks = ingest(
        tmp_path, [*records, record("c?", "1"), record("c?", "2", id="t", person="ben")], use={"gold": "none"}
    )
    assert [t.answer for t in tasks.split("train")[-3:]] == [None] * 3
    assert tasks.notes["use"]["without_answer"] == 3
    assert tasks.notes["use"]["left_out"] == {"repeated": 1}


def test_what_is_not_masked_may_be_long(tmp_path):
    assert left_out(tmp_path, [record("x" * LONGEST)], use={"mask": []}) == {}


def test_feedback_that_is_no_value_of_json_is_another_one(tmp_path):
    told = Record("t", {"question": "a?"}, said=(Said("ana", "feedback", "correct", float("inf"), 1),))
    assert left_out(tmp_path, [told], use={"feedback": {"correct": False}}) == {"other_feedback": 1}


def test_only_records_with_the_feedback_that_is_wanted_are_taken(tmp_path):
    wrong = Said("ana", "feedback", "correct", False, 1)
    told = record("a?")
    told = Record(told.id, told.inputs, said=(*told.said, wrong))
    tasks = ingest(tmp_path, [told, record("b?")], use={"feedback": {"correct": False}})
    assert asked(tasks) == ["a?"]
    assert tasks.notes["use"]["left_out"] == {"other_feedback": 1}


def test_personal_data_is_masked_in_prompt_answer_and_columns_before_anything_is_compared(tmp_path):
    def about(address, person, time):
        inputs = {"question": f"Mail {address}?", "to": address}
        said = Said(person, "expectation", "expected_response", address, time)
        return Record(f"tr-{time}", inputs, time=time, said=(said,))

    records = [about("a@example.com", "ana", 1), about("b@example.com", "ana", 2)]
    tasks = ingest(tmp_path, records)
    (task,) = [t for t in tasks.tasks if "use_trace_id" in t.info]
    assert (task.text, task.answer) == ("Mail <EMAIL_ADDRESS>?", "<EMAIL_ADDRESS>")
    assert task.info == {"to": "<EMAIL_ADDRESS>", "use_trace_id": "tr-1"}
    # masked they ask the same; of each a text and a column are masked, and one answer
    assert tasks.notes["use"]["left_out"] == {"repeated": 1}
    assert tasks.notes["use"]["masked"] == {"EMAIL_ADDRESS": 5}
    plain = ingest(tmp_path, records, use={"mask": []})
    assert sorted(asked(plain)) == ["Mail a@example.com?", "Mail b@example.com?"]


def test_shares_and_numbers_are_bounded(tmp_path):
    records = [record(f"{n}?") for n in range(80)]
    # 100 train tasks of the file: a quarter of all are 33 (33 / 133 = 0.248; 34 / 134 = 0.254)
    bounded = ingest(tmp_path, records, use={"max_share": 0.25}).notes["use"]
    assert (bounded["taken"], bounded["left_out"]) == ({"train": 33, "validation": 0}, {"beyond_max_share": 47})
    most = ingest(tmp_path, records, use={"most": 10}).notes["use"]
    assert (most["taken"], most["left_out"]) == ({"train": 10, "validation": 0}, {"beyond_most": 70})


@given(st.integers(0, 10**6), st.floats(0.01, 0.9))
def test_so_many_are_at_most_the_share_and_one_more_would_not_be(others, share):
    most = most_beside(others, share)
    assert most <= share * (most + others) + 1e-6
    assert most + 1 > share * (most + 1 + others) - 1e-6


def test_a_share_of_three_tenths_beside_seven_are_three():
    assert most_beside(7, 0.3) == 3


QUESTIONS = st.lists(st.text("abcdefgh ", min_size=1, max_size=6).filter(str.strip), unique=True, max_size=25)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(QUESTIONS, QUESTIONS, st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_question_never_moves_and_never_decides_anything_and_all_add_up(tmp_path_factory, some, more, low, high):
    low, high = sorted((low, high))
    folder = tmp_path_factory.mktemp("tasks")
    before = ingest(folder, map(record, some), use={"validation_share": low, "max_share": 0.9})
    after = ingest(folder, map(record, [*some, *more]), train=150, use={"validation_share": low, "max_share": 0.9})
    wider = ingest(folder, map(record, some), use={"validation_share": high, "max_share": 0.9})
    places = [
        {t.question_key: t.split for t in tasks.tasks if "use_trace_id" in t.info} for tasks in (before, after, wider)
    ]
    for tasks, placed in zip((before, after, wider), places, strict=True):
        note = tasks.notes["use"]
        assert sum(note["taken"].values()) + sum(note["left_out"].values()) == note["found"]
        assert set(placed.values()) <= {"train", "validation"}
        assert all(split == split_of(key, high if placed is places[2] else low) for key, split in placed.items())
    assert all(split == places[1].get(key, split) for key, split in places[0].items())
    # a larger share moves questions into validation and none out of it
    assert all(places[2].get(key, "validation") == "validation" for key, s in places[0].items() if s == "validation")


def test_half_of_the_questions_are_for_validation_if_the_share_says_so():
    # 1,000 questions at 0.5: 500 with a standard deviation of 16
    found = [split_of(prompt_key([{"role": "user", "content": str(n)}]), 0.5) for n in range(1000)]
    assert 420 < found.count("validation") < 580
    assert split_of("x", 0.0) == "train"
