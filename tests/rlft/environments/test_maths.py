import asyncio
import dataclasses

import pytest

from rlft.config import RewardConfig
from rlft.environments.contract.loading import load_environment
from rlft.rewards.scoring import score_rollouts
from rlft.types import Rollouts, Trajectory
from tests.rlft.attempts import attempt, audited, make_task

MATHS = load_environment("rlft.environments.maths:Maths", {})


def parts(text, answer=r"\frac{\sqrt{3}}{2}", prompt="What is the height of an equilateral triangle of side 1?"):
    completion = Trajectory([{"role": "assistant", "content": text}], task=make_task("m", prompt, answer))
    return asyncio.run(MATHS.compute_reward(completion, answer))


FULL, FORMAT, NOTHING = ({"correct": c, "format": f} for c, f in ((1.0, 1.0), (0.0, 1.0), (0.0, 0.0)))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (r"\frac{\sqrt{3}}{2}", r"It is $\boxed{\frac{3}{2\sqrt{3}}}$."),
        (r"So we have \boxed{\frac{1}{2}}", r"\boxed{0.5}"),
        ("1500", r"\boxed{1.5\cdot 10^3}"),
        ("(x-1)(x+1)", r"\boxed{(x+1)(x-1)}"),
        (7, r"\boxed{7}"),
    ],
)
def test_equal_answers_are_full(answer, text):
    assert parts(text, answer) == FULL


@pytest.mark.parametrize("text", ["", r"\frac{\sqrt{3}}{2}", r"\boxed{}", r"\boxed{1} \boxed{\frac{\sqrt{3}}{2}}"])
def test_no_single_box_earns_nothing(text):
    assert parts(text) == NOTHING


@pytest.mark.parametrize(
    ("answer", "text", "prompt"),
    [
        ("5", r"\boxed{2+3}", "What is 2+3?"),
        ("5", r"\boxed{4, 5}", "?"),
        ("5", r"\boxed{x = 4 \text{ or } 5}", "?"),
        ("5", r"\boxed{\{5\}}", "?"),
        ("(x-1)(x+1)", r"\boxed{x^2 - 1}", "Factor $x^2-1$."),
        (r"\frac{\sqrt{3}}{2}", r"\boxed{10^{10^8}}", "?"),
        (r"\frac{\sqrt{3}}{2}", r"\boxed{" + "((" * 5000 + "}", "?"),
    ],
)
def test_a_wrong_or_repeated_answer_earns_only_the_format(answer, text, prompt):
    assert parts(text, answer, prompt) == FORMAT


HALF = r"One of two is $\boxed{\frac{1}{2}}$."


@pytest.mark.parametrize(
    ("answer", "info", "shown"),
    [
        (HALF, {}, HALF),
        (r"\frac{1}{2}", {"solution": HALF}, HALF),
        (r"\boxed{\frac{1}{2}}", {"solution": HALF}, HALF),
        (r"\frac{1}{2}", {"solution": "One of two.\n"}, "One of two.\n" + r"\boxed{\frac{1}{2}}"),
        (r"\frac{1}{2}", {"solution": HALF + HALF}, r"\boxed{\frac{1}{2}}"),  # two boxes would earn nothing
        (r"\frac{1}{2}", {"solution": r"It is \boxed{0.25}."}, r"\boxed{\frac{1}{2}}"),
        (7, {}, r"\boxed{7}"),
        (None, {"solution": HALF}, None),
    ],
)
def test_the_solution_of_the_data_is_shown_and_full(answer, info, shown):
    assert MATHS.demonstration(dataclasses.replace(make_task("m", "?", answer), info=info)) == shown
    if shown is not None:
        assert parts(shown, answer) == FULL


def test_votes_go_together():
    def vote(text):
        return MATHS.final_answer(Trajectory([{"role": "assistant", "content": text}], task=make_task("m", "?", "1")))

    assert vote(r"\boxed{\frac12}") == vote(r"\boxed{0.5}") == "1/2"
    assert vote(r"\boxed{x + 1}") == vote(r"\boxed{x+1}") == "x+1"
    assert vote("none") is None


def test_scores_and_passes_the_audit():
    golds = [r"\frac{\pi}{6}", "x+1", r"\{1,2\}", "12", r"\sqrt{5}"]
    tasks = [make_task(f"m{n}", f"Problem {n}: find the answer.", gold) for n, gold in enumerate(golds)]
    for task in tasks:
        gold = MATHS.gold_completion(task)
        first, silence, again = score_rollouts(
            Rollouts(tuple(attempt(task, text, MATHS) for text in (gold, "", gold))),
            {task.id: task},
            MATHS,
            RewardConfig(timeout_seconds=30.0),
        )
        assert (first.solved, silence.total, again.parts) == (True, 0.0, first.parts)
    report = audited(tasks, MATHS, weights={"format": 0.1}, timeout_seconds=30.0)
    assert report.passed, report.text()


@pytest.mark.parametrize(
    "gold",
    [r"\vec{a}", r"\max(a,b)", r"\sum_{k=1}^{n} k", r"\{x\mid x>3\}", r"x\equiv 3\pmod{7}", r"\frac{\Gamma}{2}"],
)
def test_a_gold_that_is_not_parsed_is_right_letter_by_letter(gold):
    assert parts(rf"\boxed{{{gold}}}", gold) == FULL
    assert parts(rf"\boxed{{ {gold.replace(',', ', ')} }}", gold) == FULL


def test_layout_does_not_make_two_numbers_one():
    assert parts(r"\boxed{1 2}", "12") == FORMAT


@pytest.mark.parametrize("gold", ["see the figure!", r"\overline{AB}", "2023^{2024}", r"\gcd(a,b)", r"a\equiv3\pmod7"])
def test_of_a_gold_that_is_not_read_the_log_tells_once_and_other_answers_are_wrong(gold, caplog):
    for text in (r"\boxed{77}", r"\boxed{x+78}"):
        assert parts(text, gold) == FORMAT
    assert [repr(gold) in record.getMessage() for record in caplog.records] == [True]


def test_a_gold_that_is_not_one_expression_is_an_error():
    with pytest.raises(ValueError, match="is not one expression"):
        parts(r"\boxed{x}", r"\boxed{1} \boxed{2}")


def test_a_gold_answer_that_stands_in_the_problem_may_be_repeated():
    # A piece of the problem is an echo only where the gold answer is not one.
    prompt = r"Which is larger where x = 3, $x^2-1$ or $(x-1)(x+2)$?"
    assert parts(r"\boxed{(x-1)(x+2)}", "(x-1)(x+2)", prompt) == FULL
    assert parts(r"\boxed{x^2-1}", "(x-1)(x+1)", prompt) == FORMAT
