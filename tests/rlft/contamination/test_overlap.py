"""Which tasks are found, beside a slow way to find them; that the work grows with the text; and on real data."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlft.contamination import common, overlap
from rlft.contamination.common import COMMON_RUN, most_groups
from rlft.contamination.overlap import ContaminationReport, Overlap, find_contamination
from rlft.contamination.texts import text_of_demonstration
from rlft.contamination.words import runs
from tests.factories import make_task, user

ABC = list("abcdefghijklmnopqrstuvwxyz")


def found_in(prompt: str, *others: str) -> Overlap | None:
    """What is found of a task with this prompt beside train tasks with the others."""
    train = [make_task(f"train{n}", other) for n, other in enumerate(others)]
    return find_contamination({"test": [make_task("it", prompt, split="test")]}, train).found.get("it")


def test_thirteen_words_in_a_row_overlap_and_twelve_do_not():
    asked = " ".join(ABC)
    assert found_in(asked, "1 2 " + " ".join(ABC[3:15]) + " 3") is None  # twelve words
    found = found_in(asked, "1 2", "1 2 " + " ".join(ABC[3:16]) + " 3")
    assert found == Overlap("overlapping", "train", "train1", " ".join(ABC[3:16]), 13)
    assert found_in(asked, " ".join(ABC[:13]) + " 1 " + " ".join(ABC[13:])).count == 13  # the first of two


def test_the_longest_of_several_overlaps_is_told():
    found = found_in(" ".join(ABC), " ".join(ABC[:13]), " ".join(ABC[12:]))
    assert (found.other, found.count, found.words) == ("train1", 14, " ".join(ABC[12:]))


def test_of_equal_texts_the_first_is_told():
    asked = " ".join(ABC)
    assert found_in(asked, "1", asked, asked.upper()).other == "train1"
    assert found_in(asked, "1", f"2 {asked}", f"3 {asked}").other == "train1"
    assert found_in(asked, " ".join(ABC[:13]), " ".join(ABC[13:])).other == "train0"  # thirteen words of either


def test_equal_hashes_of_different_words_are_no_overlap(monkeypatch):
    monkeypatch.setattr(overlap, "runs", lambda words, length: [0] * max(0, len(words) - length + 1))
    assert found_in(" ".join(ABC), " ".join(reversed(ABC))) is None


def test_a_short_prompt_is_looked_for_as_a_whole():
    asked = " ".join(ABC[:8])
    assert found_in(asked, f"1 {asked} 2") == Overlap("overlapping", "train", "train0", asked, 8)
    assert found_in(asked, f"1 {' '.join(ABC[:7])} 2") is None
    assert found_in(" ".join(ABC[:7]), f"1 {' '.join(ABC[:7])} 2") is None  # too short to be found by chance alone
    assert found_in(" ".join(ABC[:7]), "1", " ".join(ABC[:7]).upper() + "!").kind == "exact"


def test_the_same_words_are_exact_and_other_signs_are_other_words():
    assert found_in("What is 3 * 4?", "what is 3*4") == Overlap("exact", "train", "train0", "what is 3 * 4", 5)
    assert found_in("What is 3 * 4?", "What is 3 + 4?") is None
    assert found_in("??", "!!") is None  # no words are the same as no words, and say nothing


def test_the_same_question_in_another_template_is_exact():
    asked = replace(make_task("it", "Q: Peru?", split="test"), question_key="0123456789abcdef")
    train = replace(make_task("other", "Say the capital: Peru"), question_key="0123456789abcdef")
    assert find_contamination({"test": [asked]}, [train]).found["it"].kind == "exact"


def test_demonstrations_are_searched_in_all_that_they_hold():
    turns = [{"role": "assistant", "content": "Like this one: " + " ".join(ABC[:14])}]
    shown = [text_of_demonstration("row 2", [user("Something else")], turns)]
    tasks = {"gate": [make_task("it", " ".join(ABC)), make_task("b", "Something ELSE"), make_task("c", "new")]}
    report = find_contamination(tasks, [], shown)
    assert report.found["it"] == Overlap("overlapping", "demonstrations", "row 2", " ".join(ABC[:14]), 14)
    assert report.found["b"].kind == "exact"
    assert report.counts("gate") == {"tasks": 3, "clean": 1, "exact": 1, "overlapping": 1}
    assert report.counts("test") == {"tasks": 0, "clean": 0, "exact": 0, "overlapping": 0}
    assert report.compared == {"train": 0, "demonstrations": 1}


TEMPLATE = (
    "You are a careful solver of problems and think step by step before you answer: {} Now write the answer in one "
    "line of its own, and say nothing more."
)


def test_a_template_makes_nothing_overlap():
    def asked(n: int) -> str:
        return TEMPLATE.format(f"Person{n} of town{n} has {n} apples and buys {2 * n} more on day{n}. How many?")

    tests = [make_task(f"e{n}", asked(n), split="test", group=f"e{n}") for n in range(12)]
    train = [make_task(f"t{n}", asked(n), group=f"t{n}") for n in range(20, 60)]
    report = find_contamination({"test": tests}, train)
    assert report.found == {}
    assert report.common > 0
    copied = find_contamination({"test": tests}, [*train, make_task("copy", asked(5) + " Please.", group="copy")])
    assert {task: (found.other, found.words.split()[0]) for task, found in copied.found.items()} == {
        "e5": ("copy", "person5")
    }


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

    def rest(said: list[str]) -> list[list[str]]:
        gone = {i + k for i in range(len(said)) if tuple(said[i : i + 7]) in shared for k in range(7)}
        joined = " ".join("|" if i in gone else word for i, word in enumerate(said))
        return [piece.split() for piece in joined.split("|") if piece.split()]

    result = set()
    for number, said in enumerate(texts):
        left = rest(said)
        looked = [g for piece in left for g in grams(piece, 13)]
        looked = looked or [tuple(piece) for piece in left if len(piece) >= 8]
        if said in others or any(
            g in grams(piece, len(g)) for g in looked for other in others for piece in rest(other)
        ):
            result.add(number)
    return result


fragments = st.sampled_from(
    [" ".join(ABC[i:j]) for i, j in [(0, 5), (5, 12), (12, 26), (0, 14), (3, 11), (20, 26), (7, 9)]]
)
prompts = st.lists(st.lists(fragments, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=6)


# What the last of the train prompts shares with the others is no part of what is evaluated.
@example(["a b c d e a b c d e"], ["a b c d e f g h i", "a b c d e f g h i j k", "a b c d e a b c d e f g h i"])
@given(prompts, prompts)
@settings(max_examples=200)
def test_what_is_found_is_what_a_slow_search_finds(evaluated, train):
    tests = [make_task(f"{n}", text, split="test", group=f"{n}") for n, text in enumerate(evaluated)]
    others = [make_task(f"t{n}", text, group=f"t{n}") for n, text in enumerate(train)]
    report = find_contamination({"test": tests}, others)
    assert {int(task) for task in report.found} == naive(evaluated, train)
    for task, said in report.found.items():
        if said.kind == "overlapping":
            assert said.words in evaluated[int(task)]
            assert said.words in train[int(said.other.removeprefix("t"))]


def work(count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many runs are hashed and words compared for so many tasks of evaluation and training each."""
    done = Counter()

    def counted_runs(words, length):
        found = runs(words, length)
        done["runs"] += len(found)
        return found

    original = overlap._equal

    def counted_equal(ours, place, theirs, there):
        found = original(ours, place, theirs, there)
        done["words"] += found + 1
        return found

    with monkeypatch.context() as patched:
        patched.setattr(overlap, "runs", counted_runs)
        patched.setattr(common, "runs", counted_runs)
        patched.setattr(overlap, "_equal", counted_equal)
        tests = [
            make_task(f"e{n}", TEMPLATE.format(" ".join(f"w{(n * 7 + k) % 997}" for k in range(30))), group=f"e{n}")
            for n in range(count)
        ]
        train = [
            make_task(f"t{n}", TEMPLATE.format(" ".join(f"w{(n * 5 + k) % 997}" for k in range(30))), group=f"t{n}")
            for n in range(count)
        ]
        find_contamination({"test": tests}, train)
    return done["runs"] + done["words"]


def test_the_work_grows_with_the_number_of_tasks(monkeypatch):
    # Ten thousand tasks of evaluation and as many of training have 55 words each, 1.1 million in all: some runs for
    # each word, where comparing all pairs would be a hundred million comparisons of 55 words.
    counts = [work(count, monkeypatch) for count in (1250, 2500, 5000, 10_000)]
    assert counts[-1] < 8 * 20_000 * 55
    assert all(1.9 < after / before < 2.1 for before, after in pairwise(counts))


def real(folder: Path, file: str, text: str, splits: tuple[str, ...], template: str = "{}") -> list:
    rows = [json.loads(line) for line in (folder / file).read_text().splitlines()]
    return [
        make_task(row["id"], template.format(row[text]), group=row["group"])
        for row in rows
        if row["orig_split"] in splits
    ]


@pytest.mark.parametrize("template", ["{}", TEMPLATE])
def test_published_splits_hardly_overlap(template, shared_data):
    # The three of GSM8K are variants of one another, read one by one; so are those of MBPP (docs/LOG.md, 2026-11-24).
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
