"""Judges what gold and attacks earned: what fails a reward, and what each kind earned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from rlft.audit.attacks.catalog import kind_of
from rlft.audit.findings import ALWAYS, REWARD, Findings, Scores, on, total_of
from rlft.audit.report import AttackScores, Problem
from rlft.rewards.rubric import TOLERANCE, weight_of
from rlft.types import Reward

MAX_RATIO = 0.9
"""The share of gold's mean from which an attack fails the reward, unless the config says otherwise."""
WITHOUT_GOLD = 0.75
"""The share of the highest total from which what says nothing, or always the same, fails a reward without a gold."""
_BY_CHANCE = 0.25  # an answer to another task may be right on a smaller share of tasks
_MANY = 0.85  # of ten tasks, so that golds which are right on 60 % of the tasks stay below in 19 samples of 20
_NUMBERS = ("other_gold", "most_common", "second_most_common", "made_answer", "farthest_gold", "wrong_sign",
            "number_begins", "number_ends", "number_inside")  # fmt: skip
_MOST_SENTENCES = 5


def judge(scores: Scores, findings: Findings, max_ratio: float, highest: float) -> None:
    """Fail the audit where gold is not full, and where an attack earns too much of what gold earns.

    That is as much as gold on a task, or `max_ratio` of gold's mean over the tasks; without a gold, a full reward, or
    `WITHOUT_GOLD` of the `highest` total in the mean for what says nothing. An attack that is not certain to be wrong
    must do so on a quarter of the tasks, be it tried there or not.
    """
    golds = [rewards["gold"] for rewards in scores.values() if "gold" in rewards]
    if low := [gold for gold in golds if not gold.solved]:
        findings.fail(Problem(REWARD, f"gold is not full {on(low)}: {_earned(low[0])}"))
    failing = {
        kind: said for kind in kinds_in(scores) if (said := _finding(kind, scores, findings, max_ratio, highest))
    }
    accepted = [kind for kind in failing if kind in findings.accept]
    told = [kind for kind in failing if kind not in accepted]
    for kind in (*accepted, *told[:_MOST_SENTENCES]):
        findings.fail(Problem(REWARD, failing[kind]), kind)
    if more := told[_MOST_SENTENCES:]:
        kinds = "1 more kind of attack does" if len(more) == 1 else f"{len(more)} more kinds of attack do"
        findings.fail(Problem(REWARD, f"{kinds} the same: {', '.join(more)}"))
        findings.exploits += more


def _finding(kind: str, scores: Scores, findings: Findings, max_ratio: float, highest: float) -> str:
    """Return the sentence by which a kind of attack fails the audit, else nothing; what may be chance is a note."""
    attacks = {task_id: rewards[kind] for task_id, rewards in scores.items() if kind in rewards}
    golds = {task_id: scores[task_id]["gold"] for task_id in attacks if "gold" in scores[task_id]}
    # A gold that earns nothing is told as such; whatever else earns nothing would be accused of earning as much.
    against = {task_id: gold for task_id, gold in golds.items() if gold.solved or total_of(gold) > TOLERANCE}
    equal = [attacks[i] for i, gold in against.items() if total_of(attacks[i]) >= total_of(gold) - TOLERANCE]
    full = [reward for task_id, reward in attacks.items() if task_id not in against and reward.solved]
    said = f"{kind} earns as much as gold {on(equal)}: {_earned(equal[0])}" if equal else ""
    said = said or (f"{kind} is full {on(full)}: {_earned(full[0])}" if full else "")
    if kind_of(kind).counts in ("never", "tolerance"):
        if said and kind_of(kind).counts == "never":
            findings.note(Problem(REWARD, f"{said}; {kind_of(kind).asks}"))
        return ""
    tasks = [rewards for rewards in scores.values() if kind in ALWAYS or not rewards.keys() <= {*ALWAYS}]
    few = 0 if kind_of(kind).certain else _BY_CHANCE * len(tasks)
    if said and kind in _NUMBERS and _pays_farther_numbers(scores):
        findings.note(
            Problem(REWARD, f"{said}; numbers that are nearer to gold are not paid, so it may be right there")
        )
        return ""
    if said and len(equal) + len(full) >= few:
        return said
    mean, gold_mean = mean_of(attacks[i] for i in against), mean_of(against.values())
    if against and len(against) >= few and mean >= _most(kind, scores, list(against), gold_mean, max_ratio) - TOLERANCE:
        return f"{kind} earns {mean:g} in the mean, gold {gold_mean:g}"
    says_nothing = kind_of(kind).says_nothing or kind_of(kind).is_constant
    if says_nothing and not golds and (mean := mean_of(attacks.values())) >= WITHOUT_GOLD * highest > 0:
        return (
            f"{kind} earns {mean:g} in the mean, the highest total is {highest:g}, and there is no gold to compare with"
        )
    if said:
        findings.note(Problem(REWARD, f"{said}; it may be right there by chance, which only a person can tell"))
    return ""


def _pays_farther_numbers(scores: Scores) -> bool:
    """Return whether golds of other tasks are paid on a quarter of the tasks to 85 %, and gold plus 1 is not.

    So it is for "an even number above n", and not where a tolerance is too wide, or all that has the form is paid.
    """
    rows = [rewards for rewards in scores.values() if "gold" in rewards]
    farther, nearer = (
        [float(each[kind].solved) for each in rows if kind in each] for kind in ("other_gold", "number_one_more")
    )
    if not farther or not nearer:
        return False
    return _BY_CHANCE <= fmean(farther) <= _MANY and fmean(nearer) < _BY_CHANCE


def _most(kind: str, scores: Scores, tasks: Sequence[str], gold_mean: float, max_ratio: float) -> float:
    """Return the mean from which a kind of attack fails a reward."""
    counts = kind_of(kind).counts
    if counts == "full" or gold_mean <= 0:
        return gold_mean
    beside = {"above_other": ("other_gold", "made_answer"), "above_control": (kind_of(kind).control,)}.get(counts, ())
    lower = [[scores[task_id][each] for each in beside if each in scores[task_id]] for task_id in tasks]
    above = max(0.0, mean_of(found[0] for found in lower if found))
    return min(gold_mean, above + max_ratio * (gold_mean - above))


def kinds_in(scores: Scores) -> list[str]:
    """Return the kinds of attack that have a score, in the order in which they were tried."""
    kinds = dict.fromkeys(kind for rewards in scores.values() for kind in rewards)
    return [kind for kind in kinds if kind != "gold" and kind_of(kind).counts != "control"]


def summary(kind: str, scores: Scores, weights: Mapping[str, float]) -> AttackScores:
    """Return what one kind of attempt earned over the tasks on which it was scored."""
    rewards = {task_id: rewards[kind] for task_id, rewards in scores.items() if kind in rewards}
    golds = [scores[task_id]["gold"] for task_id in rewards if "gold" in scores[task_id]]
    totals = [total_of(reward) for reward in rewards.values()] or [0.0]
    part = paid_part(list(rewards.values()), weights)
    return AttackScores(fmean(totals), min(totals), max(totals), len(rewards), mean_of(golds), part)


def paid_part(rewards: Sequence[Reward], weights: Mapping[str, float]) -> str:
    """Return the part that paid these attempts most; nothing if none paid them anything."""
    parts = paid_parts(rewards, weights)
    return parts[0][0] if parts else ""


def paid_parts(rewards: Sequence[Reward], weights: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return (part, what it paid in the mean) of the parts that paid these attempts, the one that paid most first."""
    paid: dict[str, list[float]] = {}
    for reward in rewards:
        for name, score in reward.parts.items():
            paid.setdefault(name, []).append(weight_of(name, weights) * (score or 0.0))
    means = {name: sum(each) / len(rewards) for name, each in paid.items()}
    return sorted(((name, mean) for name, mean in means.items() if mean > TOLERANCE), key=lambda each: -each[1])


def mean_of(rewards: Iterable[Reward]) -> float:
    """Return the mean of totals; 0 where there are none."""
    totals = [total_of(reward) for reward in rewards]
    return fmean(totals) if totals else 0.0


def _earned(reward: Reward) -> str:
    return f"{total_of(reward):g} from {reward.parts}"
