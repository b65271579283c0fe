"""What a reward should be warned of though it is not refused: half of gold for nothing, and scores that change."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from rlft.audit.attacks.catalog import kind_of
from rlft.audit.attacks.wrong import DAYS, NUMBERS
from rlft.audit.attempts import Stage
from rlft.audit.findings import REWARD, Findings, Scores, kinds_in, listed, mean_of, on, paid_parts, summary, total_of
from rlft.audit.report import AttackScores, Problem
from rlft.contract.base import BaseEnv, score_parts
from rlft.contract.marks import marked_weights
from rlft.contract.several import specification_of
from rlft.rewards.rubric import TOLERANCE
from rlft.specification.programs import Program
from rlft.syntax import parse
from rlft.types import Reward


def in_reverse(environment: BaseEnv) -> BaseEnv | None:
    """Return an environment whose marked rewards are asked in the opposite order, the last first.

    `None` where there are fewer than two, or where the environment's own `compute_reward` asks them. The totals are
    exactly rounded sums, so that only a reward which changes what another one reads makes a difference.
    """
    names = tuple(marked_weights(environment))
    if type(environment).compute_reward is not BaseEnv.compute_reward or len(names) < 2:
        return None
    turned = copy.copy(environment)
    turned.__dict__["compute_reward"] = partial(score_parts, environment, names[::-1])
    return turned


_RUN = ("exec", "eval", "compile", "execfile", "run_path", "run_module", "exec_module", "runcode", "runsource")


def runs_code(source: str) -> bool:
    """Return whether Python code seems to run other code in its own process: whether it calls `exec` or the like."""
    try:
        calls = [node.func for node in ast.walk(parse(source)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names = {each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in calls}
    of_patterns = {
        each.attr for each in calls if isinstance(each, ast.Attribute) and _is_named(each.value, "re", "regex")
    }
    return bool((names - of_patterns) & set(_RUN))


def _is_named(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


_HALF = 0.5
_MOST_PARTS = 5
_QUARTER = 0.25
_CLEARLY = 0.1  # of gold's mean
_PIECES = (
    ("empty_list", "first_item"), ("first_item", "without_last_item"),
    ("empty_object", "first_field"), ("first_field", "without_last_field"),
)  # fmt: skip


def warn_of_code(environment: BaseEnv, findings: Findings) -> None:
    """Add a note for each criterion whose program seems to run the attempt beside the answer, in its own process."""
    specification = specification_of(environment)
    for name, each in ({} if specification is None else specification.criteria).items():
        programs = (one for one in (each.grader, *each.grader.inner()) if isinstance(one, Program))
        if any(runs_code(program.source) for program in programs):
            findings.note(
                Problem(
                    f"reward.spec.criteria.{name}",
                    "its program calls `exec` or the like: code of an attempt that it runs so can read the answer and "
                    "write its own score",
                    "run the attempt by `subprocess`, with the inputs alone (docs/guide/reward-specification.md)",
                )
            )


def warn_of_half(scores: Scores, findings: Findings, weights: Mapping[str, float], highest: float) -> None:
    """Add a note if an attempt that says nothing earns half of gold, with the part that pays it most.

    Where no task has a gold, it is half of the `highest` total. Kinds that fail the audit are left out.
    """
    found: dict[str, AttackScores] = {}
    with_gold = any("gold" in rewards for rewards in scores.values())
    for kind in kinds_in(scores):
        if kind_of(kind).says_nothing and kind not in (*findings.exploits, *findings.accepted):
            earned = summary(kind, scores, weights)
            if not with_gold:
                earned = replace(earned, gold_mean=highest)
            if earned.gold_mean > 0 and earned.mean >= _HALF * earned.gold_mean - TOLERANCE:
                found[kind] = earned
    if not found:
        return
    best = max(found, key=lambda kind: found[kind].ratio or 0.0)
    rest = [kind for kind in found if kind != best]
    too = f" (so do {listed(rest)})" if rest else ""
    said = f"{best} answers nothing and earns {found[best].mean:g} in the mean, "
    said += f"{'gold' if with_gold else 'the highest total is'} {found[best].gold_mean:g}{too}"
    findings.note(Problem(REWARD, said, f"pay less for {found[best].part}, which pays it most, or only a right answer"))


def warn_of_constants(scores: Scores, findings: Findings, weights: Mapping[str, float]) -> None:
    """Add a note if the same attempt at every task earns half of gold, with the parts that pay it.

    An attempt is not counted where it is gold. Kinds that fail the audit are left out.
    """
    found: dict[str, AttackScores] = {}
    for kind in kinds_in(scores):
        if kind_of(kind).is_constant and kind not in (*findings.exploits, *findings.accepted):
            earned = summary(kind, scores, weights)
            if earned.gold_mean > 0 and earned.mean >= _HALF * earned.gold_mean - TOLERANCE:
                found[kind] = earned
    if not found:
        return
    best = max(found, key=lambda kind: found[kind].ratio or 0.0)
    parts = paid_parts([rewards[best] for rewards in scores.values() if best in rewards], weights)
    listed_parts = ", ".join(f"{mean:.3g} from {name}" for name, mean in parts[:_MOST_PARTS])
    rest = [kind for kind in found if kind != best]
    too = f" (so do {listed(rest)})" if rest else ""
    said = f"{best} is the same for every task and earns {found[best].mean:.3g} in the mean, gold "
    said += f"{found[best].gold_mean:.3g}{too}: {listed_parts}"
    findings.note(
        Problem(REWARD, said, "pay less for what is mostly the same, or only an answer that is right as a whole")
    )


def warn_of_pieces(scores: Scores, findings: Findings) -> None:
    """Add a note where the smaller of two pieces of gold earns more: to leave out what is needed must not pay."""
    for less, more in _PIECES:
        both = [rewards for rewards in scores.values() if {less, more} <= set(rewards)]
        paid = [each[less] for each in both if total_of(each[less]) > total_of(each[more]) + TOLERANCE]
        if paid:
            findings.note(Problem(REWARD, f"{less} earns more than {more}, which holds more of gold, {on(paid)}"))


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
    """Add a note if attempts that are scored a second time have another score: then, or with the rewards turned round.

    It does not see a judge that disagrees with itself, whose votes are known the second time: canaries do
    (`rlft.rewards.canaries`).
    """
    if warn_of_other_scores(stage.score_again(stage.environment), stage.findings, "in another order"):
        return
    if turned := in_reverse(stage.environment):
        said = "with their rewards asked in the opposite order"
        warn_of_other_scores(stage.score_again(turned), stage.findings, said)


def warn_of_other_scores(pairs: Sequence[tuple[Reward, Reward]], findings: Findings, how: str) -> bool:
    """Add a note if attempts that were scored again (`how`) have another score, and return whether they have."""
    other = [(one, two) for one, two in pairs if abs(total_of(one) - total_of(two)) > TOLERANCE]
    if other:
        one, two = other[0]
        said = f"attempts that were scored again, {how}, have other scores {on([each for each, _ in other])}"
        findings.note(Problem(REWARD, f"{said}: {total_of(one):g} and then {total_of(two):g}"))
    return bool(other)
