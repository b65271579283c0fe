"""Judges the scores of gold answers and attacks: what they say about a reward, in sentences and in numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from rlft.audit.attacks import ATTACKS, OTHER_ANSWERS
from rlft.audit.report import GOLD, AttackScores, Problem
from rlft.harness.scripted import Script
from rlft.outcome import Failure
from rlft.rewards.rubric import TOLERANCE, never_given
from rlft.types import Reward, Rewards, Task

Failed = list[tuple[str, Reward, Failure]]  # (kind of text, its reward, why it has no score) of one kind of failure
Scores = dict[str, dict[str, Reward]]  # {task id: {kind of text: its reward}}, without what could not be scored
_REWARD = "compute_reward"


class Findings:
    """Collects what was found about a reward, and whether some of it means that it must not be trained on."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.failed = False

    def note(self, problem: Problem) -> None:
        """Add what leaves the audit passed."""
        self.problems.append(problem)

    def fail(self, problem: Problem) -> None:
        """Add what fails the audit."""
        self.problems.append(problem)
        self.failed = True


def none_on(parts: Sequence[str], tasks: str) -> Problem:
    """Return the problem of parts that are `None` on all attempts of `tasks`, such as "every task"."""
    which = f"part {parts[0]} is" if len(parts) == 1 else f"parts {', '.join(parts)} are"
    fix = "return a score (is a `return` missing?), or give the weight 0"
    return Problem(_REWARD, f"{which} None on {tasks}", fix)


def by_task(rows: Sequence[tuple[str, str, Reward]]) -> tuple[Scores, list[Failed]]:
    """Return the rewards of (task id, kind, reward) by task and kind, and those that failed, one list for each error.

    Another task's gold that has the same final answer as the task's own is right, and left out.
    """
    scores: Scores = defaultdict(dict)
    failed: dict[tuple[str, ...], Failed] = defaultdict(list)
    for task_id, kind, reward in rows:
        if reward.error is not None:
            failed[reward.error.kind].append((kind, reward, reward.error))
        else:
            scores[task_id][kind] = reward
    for rewards in scores.values():
        gold = rewards.get("gold")
        for kind in OTHER_ANSWERS:
            if gold and gold.answer is not None and kind in rewards and rewards[kind].answer == gold.answer:
                del rewards[kind]
    return scores, list(failed.values())


def say_what_never_applies(
    scored: Rewards, picked: Sequence[Task], *, has_all: bool, golds: Mapping[str, Script], findings: Findings
) -> bool:
    """Add a sentence if parts with a weight are `None` in all attempts. Return whether the totals can be judged.

    They cannot if the parts are missing on every task, each with a gold: then the audit fails. `has_all` says that
    no task was left out of those `picked`; otherwise, or where a gold is missing, the sentence is a note.
    """
    never = never_given((reward.parts for reward in scored), scored.weights)
    is_sure = has_all and all(task.id in golds for task in picked)
    if never and is_sure:
        findings.fail(none_on(never, "every task"))
    elif never:
        findings.note(none_on(never, f"the {len(picked)} tasks tried"))
    return not (never and is_sure)


def say_what_failed(failed: Sequence[Failed], findings: Findings) -> None:
    """Fail the audit with a sentence for each error, which lists the kinds and tasks that it kept from being scored."""
    for found in failed:
        kinds = ", ".join(dict.fromkeys(kind for kind, _, _ in found))
        tasks = list({reward.task_id: reward for _, reward, _ in found}.values())
        error = found[0][2]
        said = f"{kinds} could not be scored {_on(tasks)}: {error.where}: {error.why}"
        findings.fail(Problem(_REWARD, said, error.fix))


def judge(scores: Scores, findings: Findings) -> None:
    """Fail the audit where gold is not full, or where an attack earns as much as gold or, without a gold, is full."""
    golds = [rewards["gold"] for rewards in scores.values() if "gold" in rewards]
    if low := [gold for gold in golds if not gold.solved]:
        findings.fail(Problem(_REWARD, f"gold is not full {_on(low)}: {_earned(low[0])}"))
    for kind in ATTACKS:
        attacks = {task_id: rewards[kind] for task_id, rewards in scores.items() if kind in rewards}
        against = {task_id: scores[task_id]["gold"] for task_id in attacks if "gold" in scores[task_id]}
        equal = [attacks[i] for i, gold in against.items() if _total(attacks[i]) >= _total(gold) - TOLERANCE]
        if equal:
            findings.fail(Problem(_REWARD, f"{kind} earns as much as gold {_on(equal)}: {_earned(equal[0])}"))
        if against and (mean := _mean(attacks[i] for i in against)) >= _mean(against.values()) - TOLERANCE:
            findings.fail(Problem(_REWARD, f"{kind} earns {mean:g} in the mean, gold {_mean(against.values()):g}"))
        if full := [reward for task_id, reward in attacks.items() if task_id not in against and reward.solved]:
            findings.fail(Problem(_REWARD, f"{kind} is full {_on(full)}: {_earned(full[0])}"))


def say_what_was_left_out(
    picked: Sequence[Task], golds: Mapping[str, Script], scores: Scores, findings: Findings
) -> None:
    """Add a sentence where tasks, golds or attacks were missing, so that less was checked."""
    if not picked:
        findings.fail(Problem("tasks", "there are no tasks, so nothing was checked"))
    elif not golds:
        said = "only empty, echoed and constant answers were checked, and only for being below full"
        findings.note(Problem(GOLD, f"no task has a gold completion: {said}"))
    elif not findings.failed and not any(kind in rewards for rewards in scores.values() for kind in OTHER_ANSWERS):
        said = "all tasks share one gold answer: a wrong answer in the right form was not checked"
        findings.note(Problem("tasks", said))


def summary(kind: str, scores: Scores) -> AttackScores:
    """Return what one kind of attempt earned over the tasks on which it was scored."""
    rewards = {task_id: rewards[kind] for task_id, rewards in scores.items() if kind in rewards}
    golds = [scores[task_id]["gold"] for task_id in rewards if "gold" in scores[task_id]]
    totals = [_total(reward) for reward in rewards.values()] or [0.0]
    return AttackScores(fmean(totals), min(totals), max(totals), len(rewards), _mean(golds) if golds else 0.0)


def _total(reward: Reward) -> float:
    return 0.0 if reward.total is None else reward.total


def _mean(rewards: Iterable[Reward]) -> float:
    return fmean(map(_total, rewards))


def _on(rewards: Sequence[Reward]) -> str:
    return f"on {len(rewards)} task{'s' * (len(rewards) > 1)}, for example {rewards[0].task_id}"


def _earned(reward: Reward) -> str:
    return f"{_total(reward):g} from {reward.parts}"
