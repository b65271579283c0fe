"""Attacks on a reward before it is trained on: what is no answer must not be paid like one."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from rlft.environments.base import BaseEnv
from rlft.errors import RlftError
from rlft.harness.scripted import Part, Script, as_script, play_scripts
from rlft.harness.stage import Limits, open_stage
from rlft.rewards.attacks import ATTACKS, OTHER_ANSWERS, attack_scripts
from rlft.rewards.rubric import TOLERANCE
from rlft.rewards.scoring import score_rollouts
from rlft.secrets import hide
from rlft.types import Reward, Rollouts, Task

GOLD_NEEDS_TOOLS = (
    "gold_completion is not defined, and the answer as text, without a call of a tool, is full on no task: "
    "no gold is known"
)
_Scores = dict[str, dict[str, Reward]]  # {task id: {kind of text: its reward}}, without what could not be scored


@dataclass(frozen=True, slots=True)
class AttackScores:
    """The totals that one kind of text earned over `count` tasks, and the gold's mean over the same tasks.

    All zero where `count` is 0; `gold_mean` is 0 where none of the tasks has a gold.
    """

    mean: float
    minimum: float
    maximum: float
    count: int
    gold_mean: float


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What the attacks earned (`gold` first) on `num_tasks` tasks, and what is wrong with the reward, in sentences.

    `passed` is false when a finding means that training would teach the wrong thing; a finding that only says what
    could not be checked leaves it true.
    """

    attacks: dict[str, AttackScores]
    findings: tuple[str, ...]
    passed: bool
    num_tasks: int

    def table(self) -> list[dict[str, Any]]:
        """One row per kind of text: attack, mean, minimum, maximum, count, gold_mean."""
        return [{"attack": name, **asdict(scores)} for name, scores in self.attacks.items()]

    def text(self) -> str:
        """What every kind of text earned, and the findings, as lines for a person."""
        rows = [f"{'text':<12} {'mean':>7} {'min':>7} {'max':>7} {'gold':>7} {'tasks':>6}"]
        rows += [
            f"{name:<12} {s.mean:7.3f} {s.minimum:7.3f} {s.maximum:7.3f} {s.gold_mean:7.3f} {s.count:6d}"
            for name, s in self.attacks.items()
        ]
        return "\n".join([*rows, *(f"- {finding}" for finding in self.findings)])

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        return {**asdict(self), "findings": list(self.findings)}


def audit_reward(
    tasks: Sequence[Task],
    environment: BaseEnv,
    *,
    weights: Mapping[str, float],
    full: float | None,
    timeout_seconds: float,
    limits: Limits | None = None,
    max_tasks: int = 50,
    seed: int = 0,
) -> AuditReport:
    """Score, on up to `max_tasks` of these (train) tasks, the gold answer and texts that are no answer.

    The attacks are `empty`, `echo` (the prompt's text), `constant` ("I do not know."), `other_gold` (the gold of a task
    with another answer) and `most_common` (the gold most frequent among `tasks`). The gold must be full on every task,
    and every attack must earn less, on every task and in the mean. An attack whose text is the gold itself is left out,
    and so is another task's gold with the same final answer. Where no gold is known, attacks must stay below full. A
    score that fails is a finding. The answer as text, where it is full on no task, is no gold of an environment with
    tools: a note says so. `weights`, `full` and `timeout_seconds` are those of `score_rollouts`; `limits` those
    of the rollouts, so that a gold that training could not reach is found.

    Raises nothing for what is wrong with tasks or reward: the caller decides.
    """
    findings = _Findings()
    sample = random.Random(seed).sample(range(len(tasks)), min(max_tasks, len(tasks)))
    picked = [tasks[index] for index in sorted(sample)]
    golds = _golds(tasks, environment, findings)
    scripts = attack_scripts(tasks, golds, picked, seed)
    kinds = [(task, kind) for task in picked for kind in scripts[task.id]]
    parts = [Part(f"audit/{kind}/{task.id}", task, scripts[task.id][kind]) for task, kind in kinds]
    try:
        rewards = score_rollouts(
            Rollouts(tuple(play_scripts(parts, environment, limits))),
            {task.id: task for task in picked},
            environment,
            weights=weights,
            full=full,
            timeout_seconds=timeout_seconds,
        ).rows
    except RlftError as error:
        findings.fail(hide(f"scoring stopped: {error.what}"))
        rewards, kinds = (), []
    except Exception as error:  # `context` is the environment's code as well
        findings.fail(hide(f"the attempts could not be put together: {type(error).__name__}: {error}"))
        rewards, kinds = (), []
    scores = _by_task([(task.id, kind, reward) for (task, kind), reward in zip(kinds, rewards, strict=True)], findings)
    if golds and scores and _is_no_gold(scores, environment):
        findings.note(GOLD_NEEDS_TOOLS)
        golds = {}
        for rewards in scores.values():
            rewards.pop("gold", None)
    _judge(scores, findings)
    _say_what_was_left_out(picked, golds, scores, findings)
    attacks = {kind: _summary(kind, scores) for kind in ("gold", *ATTACKS)}
    return AuditReport(attacks, tuple(findings.sentences), not findings.failed, len(picked))


class _Findings:
    """Sentences, and whether one of them means that the reward cannot be trained on."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.failed = False

    def note(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def fail(self, sentence: str) -> None:
        self.sentences.append(sentence)
        self.failed = True


def _is_no_gold(scores: _Scores, environment: BaseEnv) -> bool:
    """Whether the gold is only the answer as text, of an environment with tools, and is full nowhere."""
    solved = any(rewards["gold"].solved for rewards in scores.values() if "gold" in rewards)
    return not solved and has_text_gold(environment) and bool(open_stage(environment, Limits()).tools)


def has_text_gold(environment: BaseEnv) -> bool:
    """Whether nobody has said what a gold completion is, so that it is the task's answer."""
    return type(environment).gold_completion is BaseEnv.gold_completion


def _golds(tasks: Sequence[Task], environment: BaseEnv, findings: _Findings) -> dict[str, Script]:
    """{task id: gold completion}, for the tasks that have one."""
    golds: dict[str, Script] = {}
    errors: list[str] = []
    for task in tasks:
        try:
            gold = environment.gold_completion(task)
            script = None if gold is None else as_script(gold)
        except Exception as error:
            errors.append(hide(f"{task.id}: {type(error).__name__}: {error}"))
            continue
        if script is not None:
            golds[task.id] = script
    if errors:
        findings.fail(f"gold_completion failed on {len(errors)} of {len(tasks)} tasks, for example {errors[0]}")
    return golds


def _by_task(rows: Sequence[tuple[str, str, Reward]], findings: _Findings) -> _Scores:
    """Rewards by task and kind, without those that failed (a finding) and without attacks that are right answers."""
    scores: _Scores = defaultdict(dict)
    failed: dict[str, list[Reward]] = defaultdict(list)
    for task_id, kind, reward in rows:
        if reward.total is None:
            failed[kind].append(reward)
        else:
            scores[task_id][kind] = reward
    for kind, rewards in failed.items():
        findings.fail(f"{kind} could not be scored {_on(rewards)}: {rewards[0].error}")
    for rewards in scores.values():
        gold = rewards.get("gold")
        for kind in OTHER_ANSWERS:
            if gold and gold.answer is not None and kind in rewards and rewards[kind].answer == gold.answer:
                del rewards[kind]
    return scores


def _judge(scores: _Scores, findings: _Findings) -> None:
    golds = [rewards["gold"] for rewards in scores.values() if "gold" in rewards]
    if low := [gold for gold in golds if not gold.solved]:
        findings.fail(f"gold is not full {_on(low)}: {_earned(low[0])}")
    for kind in ATTACKS:
        attacks = {task_id: rewards[kind] for task_id, rewards in scores.items() if kind in rewards}
        against = {task_id: scores[task_id]["gold"] for task_id in attacks if "gold" in scores[task_id]}
        equal = [attacks[i] for i, gold in against.items() if _total(attacks[i]) >= _total(gold) - TOLERANCE]
        if equal:
            findings.fail(f"{kind} earns as much as gold {_on(equal)}: {_earned(equal[0])}")
        if against and (mean := _mean(attacks[i] for i in against)) >= _mean(against.values()) - TOLERANCE:
            findings.fail(f"{kind} earns {mean:g} in the mean, gold {_mean(against.values()):g}")
        if full := [reward for task_id, reward in attacks.items() if task_id not in against and reward.solved]:
            findings.fail(f"{kind} is full {_on(full)}: {_earned(full[0])}")


def _say_what_was_left_out(
    picked: Sequence[Task], golds: Mapping[str, Script], scores: _Scores, findings: _Findings
) -> None:
    if not picked:
        findings.fail("there are no tasks, so nothing was checked")
    elif not golds:
        findings.note(
            "no task has a gold completion: only empty, echoed and constant answers were checked, and only for being "
            "below full"
        )
    elif not findings.failed and not any(kind in rewards for rewards in scores.values() for kind in OTHER_ANSWERS):
        findings.note("all tasks share one gold answer: a wrong answer in the right form was not checked")


def _summary(kind: str, scores: _Scores) -> AttackScores:
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
