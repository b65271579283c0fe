import asyncio
import json

import pytest
from pydantic import ValidationError

from rlft.environments.gsm8k import GSM8K, declared_number
from rlft.rewards.graders.numbers import parse_number
from rlft.types import Task, Trajectory


def parts(text, answer="18", form="a_colon", truncated=False):
    task = Task("t", "gsm8k", ({"role": "user", "content": "How many?"},), answer, {}, "train", "g")
    completion = Trajectory([{"role": "assistant", "content": text}], task=task, truncated=truncated)
    return asyncio.run(GSM8K(form).compute_reward(completion, answer))


def rows(path):
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_agrees_with_the_labels_of_all_model_solutions(shared_data):
    # 4,260 labelled completions: measured 1,626 of 1,626 right ones accepted, 0 of 2,634 wrong ones.
    gold = {row["id"]: row["final"] for row in rows(shared_data / "gsm8k" / "test.jsonl")}
    accepted = {True: 0, False: 0}
    labels = {True: 0, False: 0}
    for row in rows(shared_data / "gsm8k" / "model_solutions.jsonl"):
        labels[row["is_correct"]] += 1
        number = declared_number(row["solution"], "a_colon")
        accepted[row["is_correct"]] += number == parse_number(gold[row["task_id"]])
    assert labels[True] > 1000
    assert labels[False] > 1000
    assert accepted[False] == 0
    assert accepted[True] >= 0.99 * labels[True]


@pytest.mark.parametrize("name", ["train", "test"])
def test_reads_every_answer_of_the_data(shared_data, name):
    for row in rows(shared_data / "gsm8k" / f"{name}.jsonl"):
        assert declared_number(row["answer"], "hashes") == parse_number(row["final"]), row["id"]


def task_of(row, **changes):
    fields = {"answer": row["answer"], "info": row} | changes
    return Task("t", "gsm8k", ({"role": "user", "content": row["question"]},), split="train", group="g", **fields)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["a_colon", "answer_is"])
def test_the_reasoning_of_the_data_is_shown_and_full(shared_data, form):
    """Measured on 5,967 tasks: all are shown worked, but for four as `answer_is`, which say "the answer is" before."""
    environment, bare, length = GSM8K(form), 0, 0
    found = rows(shared_data / "gsm8k" / "train.jsonl")
    for row in found:
        shown, gold = environment.demonstration(task_of(row)), environment.gold_completion(task_of(row))
        assert environment.demonstration(task_of(row, answer=row["final"])) == shown  # the column `answer` is there
        assert parts(shown, row["answer"], form) == {"correct": 1.0, "format": 1.0}
        assert "<<" not in shown
        bare, length = bare + (shown == gold), length + len(shown)
    assert bare == (4 if form == "answer_is" else 0)
    assert length / len(found) > 200  # characters


def test_without_reasoning_the_declaration_alone_is_shown():
    row = {"question": "How many?", "answer": "18"}
    assert GSM8K("boxed").demonstration(task_of(row)) == "\\boxed{18}"
    assert GSM8K("boxed").demonstration(task_of(row, answer=18, info={"solution": "9 * 2 = 18."})) == (
        "9 * 2 = 18.\n\\boxed{18}"
    )
    assert GSM8K("boxed").demonstration(task_of(row, answer=None)) is None
    twice = {"question": "How many?", "answer": "So the answer is 18.\n#### 18"}
    assert GSM8K("answer_is").demonstration(task_of(twice)) == "The answer is 18."  # two declarations earn nothing


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("hashes", "9 * 2 = <<9*2=18>>18 dollars.\n#### 18"),
        ("a_colon", "16 - 3 - 4 = 9\nA: $18.00"),
        ("a_colon", "**A:** 18"),
        ("a_colon", "**A**: 18"),
        ("answer_is", "**The answer is**: 18"),
        ("a_colon", "A: 18\nThat is all."),
        ("answer_is", "So she makes 9 * 2. The final answer is $18."),
        ("boxed", "Thus $\\boxed{18}$, as 9 * 2 = 18."),
    ],
)
def test_one_declared_gold_number_is_full(form, text):
    assert parts(text, form=form) == {"correct": 1.0, "format": 1.0}


@pytest.mark.parametrize("written", ["1800", r"1.8\cdot10^3", r"$1.8 \times 10^{3}$", r"\frac{3600}{2}"])
@pytest.mark.parametrize("form", ["hashes", "a_colon", "answer_is", "boxed"])
def test_numbers_in_latex(form, written):
    declared = {"hashes": "#### {}", "a_colon": "A: {}", "answer_is": "The answer is {}", "boxed": "\\boxed{{{}}}"}[
        form
    ]
    assert parts(declared.format(written), answer="1800", form=form) == {"correct": 1.0, "format": 1.0}
    for other in (f"{written}, 17", f"{written}+0", f"{written} {written}"):
        assert parts(declared.format(other), answer="1800", form=form) == {"correct": 0.0, "format": 0.0}


@pytest.mark.parametrize("written", ["10^{10^8}", "10**10**8", r"2\cdot 900", r"2^{3}", "9+9", r"\sqrt{324}"])
def test_a_calculation_is_no_number(written):
    assert parts(f"\\boxed{{{written}}}", form="boxed") == {"correct": 0.0, "format": 0.0}


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("a_colon", ""),
        ("a_colon", "18"),
        ("a_colon", "A: 18\nA: 18"),
        ("a_colon", "A: 17\nA: 18"),
        ("a_colon", "A: 18 A: 17"),
        ("a_colon", "A: 18, 19, 20"),
        ("a_colon", "A: 18 or 19"),
        ("a_colon", "A: 18\nor perhaps 19"),
        ("a_colon", "A: 18\nor perhaps ½"),
        ("a_colon", "A:\n18"),
        ("a_colon", "Train A: 18"),
        ("a_colon", "#### 18"),
        ("hashes", "A: 18"),
        ("hashes", "#### 18 #### 18"),
        ("hashes", "##### 18"),
        ("hashes", "#### 18\n19"),
        ("answer_is", "The answer is 18. No, 17."),
        ("answer_is", "The answer is not 18."),
        ("answer_is", "The answer is 17. The answer is 18."),
        ("boxed", "\\boxed{17} \\boxed{18}"),
        ("boxed", "\\boxed{18"),
        ("boxed", "\\boxed{17, 18}"),
    ],
)
def test_no_single_declaration_earns_nothing(form, text):
    assert parts(text, form=form) == {"correct": 0.0, "format": 0.0}


@pytest.mark.parametrize("text", ["A: 17", "18 is not it\nA: 17", "A: 18.0001", "A: -18", "A: 1800"])
def test_a_wrong_declaration_earns_only_the_format(text):
    assert parts(text) == {"correct": 0.0, "format": 1.0}


def test_a_cut_line_may_be_a_cut_number():
    # "A: 18" could have become "A: 1800"; a line break or a closing brace shows that the number was complete.
    assert parts("A: 18", truncated=True)["correct"] == 0
    assert parts("A: 18\nSo", truncated=True)["correct"] == 1
    assert parts("\\boxed{18}", form="boxed", truncated=True)["correct"] == 1


def test_a_gold_answer_that_is_no_number_is_an_error():
    with pytest.raises(ValueError, match="not one number"):
        parts("A: 18", answer="about 18")


def test_an_unknown_form_names_the_known_ones():
    with pytest.raises(ValidationError, match="'hashes', 'a_colon', 'answer_is' or 'boxed'"):
        GSM8K("xml")  # type: ignore[arg-type]
