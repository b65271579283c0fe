"""What a reward should be warned of though it is not refused: half of gold for nothing, and scores that change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.several import specification_of
from rlft.rewards.audit.attacks import kind_of
from rlft.rewards.audit.attacks.wrong import DAYS, NUMBERS
from rlft.rewards.audit.attempts import Stage
from rlft.rewards.audit.findings import (
    REWARD,
    Findings,
    Scores,
    kinds_in,
    listed,
    mean_of,
    on,
    paid_parts,
    summary,
    total_of,
)
from rlft.rewards.audit.report import GOLD_KIND, AttackScores, Problem
from rlft.rewards.rubric import TOLERANCE
from rlft.types import Reward

_HALF = 0.5
_MOST_PARTS = 5
_QUARTER = 0.25
_CLEARLY = 0.1  # of gold's mean


def warn_of_comparing(
    environment: BaseEnv, weights: Mapping[str, float], full: float | None, findings: Findings
) -> None:
    """Add a note for a paid criterion that compares attempts, unless `full` says what the others earn.

    Its score says where an attempt stands in its group, and nothing about the policy.
    """
    specification = specification_of(environment)
    for name, each in ({} if specification is None else specification.criteria).items():
        if each.grader.compares and weights.get(name, each.weight) > 0 and full is None:
            findings.note(
                Problem(
                    f"reward.spec.criteria.{name}",
                    "it compares attempts of one policy with each other, so its mean says nothing about the policy",
                    "choose evaluation.metric: accuracy, and set reward.full to what the other criteria earn",
                )
            )


def warn_of_half(scores: Scores, findings: Findings, weights: Mapping[str, float], highest: float) -> None:
    """Add a note if what says nothing earns half of gold, and one if the same answer at every task does.

    Where no task has a gold, it is half of the `highest` total. Kinds that fail the audit are left out, and what is the
    same for every task is not counted where it is gold.
    """
    with_gold = any(GOLD_KIND in rewards for rewards in scores.values())
    half: dict[bool, dict[str, AttackScores]] = {True: {}, False: {}}
    for kind in kinds_in(scores):
        attack, earned = kind_of(kind), summary(kind, scores, weights)
        if not (attack.says_nothing or (attack.is_constant and with_gold)) or kind in findings.told:
            continue
        earned = earned if with_gold else replace(earned, gold_mean=highest)
        if earned.gold_mean > 0 and earned.mean >= _HALF * earned.gold_mean - TOLERANCE:
            half[attack.says_nothing][kind] = earned
    for says_nothing, found in half.items():
        if not found:
            continue
        best, *rest = sorted(found, key=lambda kind: -(found[kind].ratio or 0.0))
        parts = paid_parts([rewards[best] for rewards in scores.values() if best in rewards], weights)[:_MOST_PARTS]
        said = f"{best} {'answers nothing' if says_nothing else 'is the same for every task'} and earns "
        said += f"{found[best].mean:.3g} in the mean, {'gold' if with_gold else 'the highest total is'} "
        said += f"{found[best].gold_mean:.3g}{f' (so do {listed(rest)})' if rest else ''}: "
        said += ", ".join(f"{mean:.3g} from {name}" for name, mean in parts)
        findings.note(Problem(REWARD, said, "pay less for what needs no answer, or only an answer that is right"))


def warn_of_tolerance(scores: Scores, findings: Findings) -> None:
    """Add a note that says how far off a number, or a day, is that is paid like gold on a quarter of the tasks.

    The farthest one that was tried is named: whether that is meant only the reward's owner knows.
    """
    for steps in (NUMBERS, DAYS):
        paid: tuple[str, list[Reward]] | None = None
        for step in steps:
            both = [rewards for rewards in scores.values() if {"gold", step.name} <= set(rewards)]
            like = [each[step.name] for each in both if each["gold"].solved and _is_like_gold(each[step.name], each)]
            paid = (step.why, like) if like and len(like) >= _QUARTER * len(both) else paid
        if paid is not None:
            said = f"{paid[0]} is paid like gold {on(paid[1])}"
            findings.note(Problem(REWARD, said, "lower the tolerance, unless an answer that is so far off is right"))


def _is_like_gold(reward: Reward, rewards: Mapping[str, Reward]) -> bool:
    return total_of(reward) >= total_of(rewards["gold"]) - TOLERANCE


def warn_of_silence(scores: Scores, findings: Findings) -> None:
    """Add a note if silence earns clearly more than answers to other tasks: who is rarely right learns silence."""
    both = [rewards for rewards in scores.values() if {"gold", "empty", "other_gold"} <= set(rewards)]
    silent, wrong, gold = (mean_of(each[kind] for each in both) for kind in ("empty", "other_gold", "gold"))
    if silent > wrong + _CLEARLY * abs(gold) + TOLERANCE:
        said = f"silence earns {silent:g} in the mean and a wrong answer {wrong:g}: who is rarely right learns silence"
        findings.note(Problem(REWARD, said))


def warn_of_changes(stage: Stage) -> None:
    """Add a note if attempts that are scored a second time, in another order, have another score then.

    It does not see a judge that disagrees with itself, whose votes are known the second time.
    """
    pairs = stage.score_again()
    if other := [(one, two) for one, two in pairs if abs(total_of(one) - total_of(two)) > TOLERANCE]:
        one, two = other[0]
        said = f"attempts that were scored again, in another order, have other scores {on([each for each, _ in other])}"
        stage.findings.note(Problem(REWARD, f"{said}: {total_of(one):g} and then {total_of(two):g}"))
