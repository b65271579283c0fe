"""Causes that show on validation: what was learnt holds for the train tasks alone, for one answer, or for a while."""

from __future__ import annotations

from rlft.evaluation.comparison import compare
from rlft.evaluation.diagnosis.history import LEVEL, Finding, History, passes, rises
from rlft.evaluation.variety import COLLAPSED, named
from rlft.types import EvaluationReport

PASSES = 20  # over the train tasks
MEMORISED = 0.1  # rise of the share of solved attempts in training that validation does not share
SAME_ANSWER = 0.8  # of the attempts in the last third of the rounds
LOST = 0.5  # of what validation had gained; of what it has lost, at the end


def memorising(history: History) -> Finding | None:
    """Training tasks that are learnt by heart."""
    change, validations = history.change("accuracy"), history.scored_validations()
    if change is None or len(validations) < 2:
        return None
    if history.curve(
        "curriculum/expected_pass_rate"
    ):  # the tasks of each round were chosen by how often they are solved
        return None
    (_, first), (_, last) = validations[0], validations[-1]
    if not (first.per_task.get("accuracy") and last.per_task.get("accuracy")):
        return None
    unseen = compare(last, first, "accuracy")
    in_training = change[1] - change[0]
    rounds_each = history.groups() / max(1, history.train_tasks)
    if (
        unseen is None
        or in_training < MEMORISED
        or rounds_each < PASSES
        or not rises(history.curve("accuracy"), history.level)
    ):
        return None
    risen, high = unseen.difference.mean, unseen.difference.high
    if risen > in_training / 2 or high >= in_training or last.metrics["accuracy"].high >= change[1]:
        return None  # validation has risen, or its tasks are too few to say that it has risen less than training
    return Finding(
        "too few tasks",
        f"The share of solved attempts rose from {change[0]:.1%} to {change[1]:.1%} in training and by "
        f"{100 * risen:+.1f} points on validation (at most {100 * high:+.1f}): the "
        f"{history.train_tasks} train tasks were attempted in {rounds_each:.0f} rounds each, and are known by heart.",
        "Take more train tasks (tasks.splits), or fewer rounds.",
    )


def constant_answer(history: History) -> Finding | None:
    """A policy that says the same to every task, greedily and when it is sampled, although the right answers differ."""
    validations, change = history.scored_validations(), history.change("completions/same_answer_ratio")
    if len(validations) < 2 or change is None:
        return None
    (_, start), (_, last) = validations[0], validations[-1]
    share, groups = change[1], history.groups(len(history.rounds) // 3)
    if last.answers != 1 or _needed(last, start) < 2 or not passes(share, SAME_ANSWER, groups, history.level):
        return None
    solved = last.metrics["accuracy"].mean if "accuracy" in last.metrics else None
    earns = "" if solved is None else f", which solves {solved:.1%} of these"
    return Finding(
        "one constant answer",
        f"{share:.0%} of the attempts of the last third of the rounds give the same answer whatever the task is, and "
        f"on validation the policy says {named(dict(list(last.frequent.items())[:1]))}{earns}.",
        "Pay a wrong answer, and no answer, no more than each other (a guess that is safe is learnt first); balance "
        "the answers of the train tasks; lower training.learning_rate or hold the policy (training.beta); begin with a "
        "policy that is right more often than the constant (warm_start).",
    )


def _needed(last: EvaluationReport, start: EvaluationReport) -> int:
    """Return how many answers tasks need, as far as that is known; 0 if it is not.

    Where tasks have a check and no answer, it is with how many the start solved some. If it solved none, a policy that
    gave many different answers before is taken to have had reason to.
    """
    if last.right_answers is not None:
        return last.right_answers
    return start.solved_answers or (start.answers if start.answers >= COLLAPSED and not last.solved_answers else 0)


def fallen_back(history: History) -> Finding | None:
    """A policy that was better before than it is at the end."""
    validations = history.scored_validations()
    if len(validations) < 3:
        return None
    (_, first), *between, (_, last) = validations
    # The best of several is the luckiest, too: each of them has its share of the chance (Bonferroni).
    confidence = 1 - 2 * LEVEL / len(between)
    for number, report in sorted(between, key=lambda each: -each[1].metrics[history.metric].mean):
        lost, gained = (compare(report, other, history.metric, confidence=confidence) for other in (last, first))
        if lost is None or gained is None or not (lost.exceeds(0) and gained.exceeds(0)):
            continue
        if lost.difference.mean >= LOST * gained.difference.mean:
            return Finding(
                "better before than at the end",
                f"On validation {history.metric} rose from {gained.before:.3f} to {lost.after:.3f} in "
                f"{_rounds(number)}, and fell to {lost.before:.3f} by the end ({lost.difference.mean:+.3f} lost, at "
                f"least {lost.difference.low:+.3f}).",
                "The best validated policy is kept. Lower training.learning_rate "
                f"(it is {history.learning_rate:g}), let it fall (training.lr_scheduler_type: linear), hold the policy "
                "near its start (training.beta: 0.01), and end at a plateau (evaluation.patience: 5).",
            )
    return None


def worse_than_start(history: History) -> Finding | None:
    """A policy that training has made worse."""
    validations = history.scored_validations()
    if len(validations) < 2:
        return None
    (_, first), *later = validations
    last = compare(first, later[-1][1], history.metric)
    # As in `fallen_back`, the worst of several is the unluckiest, too.
    confidence = 1 - 2 * LEVEL / len(later)
    for number, report in sorted(later, key=lambda each: each[1].metrics[history.metric].mean):
        lost = compare(first, report, history.metric, confidence=confidence)
        if last is None or lost is None or not lost.exceeds(0):
            continue
        if last.difference.mean >= LOST * lost.difference.mean:
            meaning, remedy = _unlearnt(history)
            return Finding(
                "worse than at the start",
                f"On validation {history.metric} fell from {lost.after:.3f} to {lost.before:.3f} in "
                f"{_rounds(number)} (by {lost.difference.low:.3f} at least), and is "
                f"{last.before:.3f} at the end: {meaning}",
                remedy,
            )
    return None


def _unlearnt(history: History) -> tuple[str, str]:
    """Return what a fall of validation means, and what to do, by what training did meanwhile."""
    change = history.change("accuracy")
    if change is not None and rises(history.curve("accuracy")):
        return (
            f"meanwhile the share of solved attempts rose from {change[0]:.1%} to {change[1]:.1%} in training, so that "
            "what is taught there is not what validation asks.",
            "Compare a few train tasks with validation tasks by eye: their answers may follow other rules (labels, "
            "units, forms), or come from another source.",
        )
    meaning = "training unlearns what the policy could do."
    return meaning, (
        f"Lower training.learning_rate (it is {history.learning_rate:g}) to a third, let it rise over the first "
        "updates (training.warmup_updates: 10), and hold the policy near its start (training.beta: 0.01)."
    )


def _rounds(number: int) -> str:
    return "1 round" if number == 1 else f"{number} rounds"
