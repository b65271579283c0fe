"""Which tasks are found, beside a slow way to find them; that the work grows with the text; and on real data."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.contamination import COPIES, DISTINCT, FAILS, kind, table
from rlft.tasks import contamination
from rlft.tasks.contamination import (
    COMMON_RUN,
    ContaminationReport,
    Overlap,
    find_contamination,
    most_groups,
    text_of_demonstration,
)
from tests.factories import make_task, user

ALFA = [
    *("alfa", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett", "kilo", "lima"),
    *("mike", "november", "oscar", "papa", "quebec", "romeo", "sierra", "tango", "uniform", "victor", "whiskey"),
    *("xray", "yankee", "zulu"),
]


def some(first: int, last: int) -> str:
    return " ".join(ALFA[first:last])


def found_in(prompt: str, *others: str) -> Overlap | None:
    """What is found of a task with this prompt beside train tasks with the others."""
    train = [make_task(f"train{n}", other) for n, other in enumerate(others)]
    return find_contamination({"test": [make_task("it", prompt, split="test")]}, train).found.get("it")


@pytest.mark.parametrize("name", COPIES)
def test_copies_are_found(name):
    assert (kind(name) == "clean") is (name in FAILS)


@pytest.mark.parametrize("name", DISTINCT)
def test_distinct_tasks_are_not_accused(name):
    assert (kind(name) != "clean") is (name in FAILS)


def test_the_guide_has_the_table():
    assert table() in Path("docs/guide/contamination.md").read_text()


def test_thirteen_words_in_a_row_overlap_and_twelve_do_not():
    assert found_in(some(0, 26), f"one two {some(3, 15)} three") is None
    found = found_in(some(0, 26), "one two", f"one two {some(3, 16)} three")
    assert found == Overlap("overlapping", "train", "train1", some(3, 16))
    assert found_in(f"{some(0, 13)} more", f"{some(0, 13)} less").kind == "overlapping"
    assert found_in(some(0, 12), f"{some(0, 12)} less") is None  # of fewer words only the whole counts


def test_numbers_and_single_letters_must_be_equal_and_do_not_count():
    twelve = f"{some(0, 6)} x 7 {some(6, 12)}"  # twelve words that count
    assert found_in(f"{twelve} what", f"{twelve} which") is None
    assert found_in(f"{twelve} mike 1", f"{twelve} mike 2").words == f"{twelve} mike"
    assert found_in(f"{twelve} mike", f"{twelve.replace('7', '8')} mike") is None


@pytest.mark.parametrize(
    ("prompt", "is_found"),
    [
        (f"{some(0, 13)} (+-+) ", True),  # five signs by 13 words
        (f"{some(0, 13)} (+-+-+)", False),  # seven are more than half as many
        ("gattaca tag " * 13 + some(0, 12), False),  # DNA is no word
        ("\u6c49\u5b57\u5199\u7684\u95ee\u9898\u4e0d\u7528\u7a7a\u683c\u5206\u5f00" * 2 + "\u6c49\u5b57", True),  # 26
        ("\u6c49\u5b57\u5199\u7684\u95ee\u9898\u4e0d\u7528\u7a7a\u683c\u5206\u5f00" * 2 + "\u6c49", False),
    ],
)
def test_only_prose_overlaps(prompt, is_found):
    assert (found_in(prompt, f"{prompt} too") is not None) == is_found


def test_of_equal_texts_the_first_is_told():
    asked = some(0, 26)
    assert found_in(asked, "one", asked, asked.upper()).other == "train1"
    assert found_in(asked, "one", f"two {asked}", f"three {asked}").other == "train1"
    assert found_in(asked, f"two {asked}", asked).other == "train1"  # the whole prompt comes before a part of it


def test_the_same_question_in_another_template_is_exact():
    asked = replace(make_task("it", "Q: Peru?", split="test"), question_key="0123456789abcdef")
    train = replace(make_task("other", "Say the capital: Peru"), question_key="0123456789abcdef")
    assert find_contamination({"test": [asked]}, [train]).found["it"].kind == "exact"
    assert found_in("", "") is not None  # the same question, which is none
    assert found_in("??", "!!") is None


def test_what_differs_by_case_or_space_is_a_copy_if_the_answer_is_the_same():
    train = [make_task("other", "Is it upper case?\nA b", "no"), make_task("same", "Peru?", "Lima")]
    asked = {
        "folded, other answer": make_task("1", "Is it upper case? A B", "yes"),
        "folded, same answer": make_task("2", "is it upper case? a b", "no"),
        "same, other answer": make_task("3", "Peru?", "the city of Lima"),
        "in another case": make_task("4", "peru?", "Lima"),
    }
    found = find_contamination({"test": list(asked.values())}, train).found
    assert {what for what, task in asked.items() if task.id in found} == asked.keys() - {"folded, other answer"}
    # letters of options move with them, be they bold in the one or in the other
    plain, bold = "Pick:\nA) x\nB) y\nC) z", "Pick:\n**A)** z\n**B)** x\n**C)** y"
    for one, other in ((plain, bold), (bold, plain)):
        given = {"test": [make_task("it", one, "A")]}
        assert find_contamination(given, [make_task("o", other, "B")]).found["it"].kind == "exact"
    # a demonstration tells no answer, so that what is folded counts
    assert (
        "1"
        in find_contamination(
            {"test": list(asked.values())}, [], [text_of_demonstration("row", [user("Is it upper case? a b")], [])]
        ).found
    )


def test_demonstrations_are_searched_in_all_that_they_hold():
    turns = [{"role": "assistant", "content": f"Like this one: {some(0, 14)}"}]
    shown = [text_of_demonstration("row 2", [user("Something else")], turns)]
    tasks = {"gate": [make_task("it", some(0, 26)), make_task("b", "Something ELSE"), make_task("c", "new")]}
    report = find_contamination(tasks, [], shown)
    assert report.found["it"] == Overlap("overlapping", "demonstrations", "row 2", some(0, 13))
    assert report.found["b"].kind == "exact"
    assert report.counts("gate") == {"tasks": 3, "clean": 1, "exact": 1, "overlapping": 1}
    assert report.counts("test") == {"tasks": 0, "clean": 0, "exact": 0, "overlapping": 0}
    assert report.compared == {"train": 0, "demonstrations": 1}


@pytest.mark.parametrize(
    ("groups", "most"),
    [
        (1, 2),  # min(10, max(2, 0.5)): nothing is common to one or two
        (8, 4),  # more than half
        (20, 10),  # half and ten are the same
        (500, 10),  # more than ten
        (5000, 50),  # more than 1 %
    ],
)
def test_in_how_many_groups_a_run_may_be(groups, most):
    assert most_groups(groups) == most


TEMPLATE = (
    "You are a careful solver of problems and think step by step before you answer: {} Now write the answer in one "
    "line of its own, and say nothing more."
)


def test_a_template_makes_nothing_overlap():
    def asked(n: int) -> str:
        name = f"{ALFA[n % 26]}{ALFA[n // 26]}"
        what = f"{name} of {name}town has {n} apples and buys {2 * n} more on {name}day from the farmer {name}ski."
        return TEMPLATE.format(f"{what} How many?")

    tests = [make_task(f"e{n}", asked(n), split="test", group=f"e{n}") for n in range(12)]
    train = [make_task(f"t{n}", asked(n), group=f"t{n}") for n in range(20, 60)]
    report = find_contamination({"test": tests}, train)
    assert report.found == {}
    assert report.common > 0
    copied = find_contamination({"test": tests}, [*train, make_task("copy", asked(5) + " Please.", group="copy")])
    assert {task: (found.other, found.words.split()[0]) for task, found in copied.found.items()} == {
        "e5": ("copy", "foxtrotalfa")
    }


def test_what_a_document_says_is_no_template_however_many_questions_it_has():
    asked = [make_task(f"e{n}", f"{some(0, 13)} word{n}", split="test", group="one") for n in range(40)]
    assert len(find_contamination({"test": asked}, [make_task("t", f"{some(0, 13)} else")]).found) == 40
    apart = [replace(task, group=task.id) for task in asked]
    assert find_contamination({"test": apart}, [make_task("t", f"{some(0, 13)} else")]).found == {}


def naive(evaluated: list[str], train: list[str]) -> set[int]:
    """Which of the prompts overlap, each word looked at as often as it takes."""

    def grams(said: list[str], length: int) -> set[tuple[str, ...]]:
        return {tuple(said[i : i + length]) for i in range(len(said) - length + 1)}

    texts, others = [text.split() for text in evaluated], [text.split() for text in train]
    asked = {gram for said in texts for gram in grams(said, COMMON_RUN)}
    shared = set()
    for side in (texts, others):
        counts = Counter(gram for said in side for gram in grams(said, COMMON_RUN))
        shared |= {gram for gram, count in counts.items() if gram in asked and count > most_groups(len(side))}

    def rest(said: list[str]) -> set[tuple[str, ...]]:
        gone = {i + k for i in range(len(said)) if tuple(said[i : i + 7]) in shared for k in range(7)}
        joined = " ".join("|" if i in gone else word for i, word in enumerate(said))
        return {gram for piece in joined.split("|") for gram in grams(piece.split(), 13)}

    known = {gram for other in others for gram in rest(other)}
    return {n for n, said in enumerate(texts) if said in others or not known.isdisjoint(rest(said))}


fragments = st.sampled_from([some(*each) for each in [(0, 5), (5, 12), (12, 26), (0, 14), (3, 11), (20, 26), (7, 9)]])
prompts = st.lists(st.lists(fragments, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=6)


# What the last of the train prompts shares with the others is no part of what is evaluated.
@pytest.mark.slow
@example([f"{some(0, 5)} {some(0, 5)}"], [some(0, 9), some(0, 11), f"{some(0, 5)} {some(0, 9)}"])
@given(prompts, prompts)
@settings(max_examples=100, deadline=None)
def test_what_is_found_is_what_a_slow_search_finds(evaluated, train):
    tests = [make_task(f"{n}", text, split="test", group=f"{n}") for n, text in enumerate(evaluated)]
    others = [make_task(f"t{n}", text, group=f"t{n}") for n, text in enumerate(train)]
    report = find_contamination({"test": tests}, others)
    assert {int(task) for task in report.found} == naive(evaluated, train)
    for task, said in report.found.items():
        if said.kind == "overlapping":
            assert said.words in evaluated[int(task)]
            assert said.words in train[int(said.other.removeprefix("t"))]


@pytest.mark.slow
def test_the_work_grows_with_the_number_of_tasks(monkeypatch):
    # Each word is weighed once for every text that has it, twice where it is evaluated: 55 words of each task.
    asked = Counter[int]()

    def tasks(count: int, step: int) -> list:
        return [
            make_task(f"{step}/{n}", TEMPLATE.format(" ".join(f"word{(n * step + k) % 997}" for k in range(30))))
            for n in range(count)
        ]

    for count in (500, 1000):

        def weighed(word, count=count):
            asked[count] += 1
            return 1.0

        monkeypatch.setattr(contamination, "weight", weighed)
        find_contamination({"test": tasks(count, 7)}, tasks(count, 5))
    assert asked[500] < 500 * 3 * 55
    assert 1.9 < asked[1000] / asked[500] < 2.1


def real(folder: Path, file: str, text: str, splits: tuple[str, ...], template: str = "{}") -> list:
    rows = [json.loads(line) for line in (folder / file).read_text().splitlines()]
    return [
        make_task(row["id"], template.format(row[text]), group=row["group"])
        for row in rows
        if row["orig_split"] in splits
    ]


@pytest.mark.slow
@pytest.mark.parametrize("template", ["{}", TEMPLATE])
def test_published_splits_hardly_overlap(template, shared_data):
    # The three of GSM8K are variants of one another, read one by one; so are those of MBPP (docs/LOG.md).
    tests, train = (
        real(shared_data, f"gsm8k/{split}.jsonl", "question", (split,), template) for split in ("test", "train")
    )
    assert find_contamination({"test": tests}, train).counts("test") == {
        "tasks": 1065,
        "clean": 1062,
        "exact": 0,
        "overlapping": 3,
    }
    tests, train = (
        real(shared_data, "snips_slots/utterances.jsonl", "text", (split,), template) for split in ("validate", "train")
    )
    assert find_contamination({"test": tests}, train).counts("test") == {
        "tasks": 548,
        "clean": 547,
        "exact": 1,
        "overlapping": 0,
    }


def test_a_report_without_tasks():
    assert find_contamination({}, []) == ContaminationReport({}, {}, {"train": 0, "demonstrations": 0})
