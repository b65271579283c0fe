"""Attacks on a reward before it is trained on: what is no answer must not be paid like one."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from rlft.audit.attacks import ATTACKS, OTHER_ANSWERS, attack_scripts
from rlft.config import HarnessConfig
from rlft.contract.base import BaseEnv
from rlft.contract.faults import described, kind_of
from rlft.errors import ConfigError, RlftError
from rlft.harness.playground import open_playground
from rlft.harness.scripted import Part, Script, as_script, play_scripts
from rlft.outcome import Failure
from rlft.progress import Progress, silent
from rlft.rewards.rubric import TOLERANCE, WAY_OUT, never_given
from rlft.rewards.scoring import score_rollouts
from rlft.secrets import hide
from rlft.types import Report, Reward, Rewards, Rollouts, Task

GOLD_NEEDS_TOOLS = (
    "gold_completion is not defined, and the answer as text, without a call of a tool, is full on no task: "
    "no gold is known"
)
_Failed = list[tuple[str, Reward]]  # (kind of text, its reward) of one error
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
class AuditReport(Report):
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
        """What every kind of text earned, if anything was scored, and the findings, as lines for a person."""
        rows = [f"{'text':<12} {'mean':>7} {'min':>7} {'max':>7} {'gold':>7} {'tasks':>6}"]
        rows += [
            f"{name:<12} {s.mean:7.3f} {s.minimum:7.3f} {s.maximum:7.3f} {s.gold_mean:7.3f} {s.count:6d}"
            for name, s in self.attacks.items()
        ]
        scored = any(s.count for s in self.attacks.values())
        return "\n".join([*(rows if scored else ()), *(f"- {finding}" for finding in self.findings)])

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
    harness: HarnessConfig | None = None,
    max_tasks: int = 50,
    seed: int = 0,
    progress: Progress = silent,
) -> AuditReport:
    """Score, on up to `max_tasks` of these (train) tasks, the gold answer and texts that are no answer.

    The attacks are `empty`, `echo` (the prompt's text), `constant` ("I do not know."), `other_gold` (the gold of a task
    with another answer) and `most_common` (the gold most frequent among `tasks`). The gold must be full on every task,
    and every attack must earn less, on every task and in the mean. An attack whose text is the gold itself is left out,
    and so is another task's gold with the same final answer. Where no gold is known, attacks must stay below full. A
    score that fails is a finding, and so is a weighed part that is `None` on every task, gold and attacks; a note where
    not all tasks were tried with a gold. The answer as text, where it is full on no task, is no gold of an environment
    with tools: a note says so. `weights`, `full` and `timeout_seconds` are those of `score_rollouts`; `harness` is that
    of the rollouts, so that a gold that training could not reach is found.

    Raises ConfigError for a weight whose part does not exist, and nothing for what is wrong with tasks or reward: the
    caller decides.
    """
    findings = _Findings()
    sample = random.Random(seed).sample(range(len(tasks)), min(max_tasks, len(tasks)))
    picked = [tasks[index] for index in sorted(sample)]
    golds = _golds(tasks, environment, findings)
    scripts = attack_scripts(tasks, golds, picked, seed)
    kinds = [(task, kind) for task in picked for kind in scripts[task.id]]
    parts = [Part(f"audit/{kind}/{task.id}", task, scripts[task.id][kind]) for task, kind in kinds]
    settings = {"weights": weights, "full": full, "timeout_seconds": timeout_seconds}
    scored = _score(parts, picked, environment, harness, settings, findings, progress)
    rows = [(task.id, kind, reward) for (task, kind), reward in zip(kinds, scored, strict=False)]
    scores, failed = _by_task(rows)
    if golds and scores and _is_no_gold(scores, environment):
        findings.note(GOLD_NEEDS_TOOLS)
        golds = {}
        for rewards in scores.values():
            rewards.pop("gold", None)
    is_whole = _say_what_never_applies(
        scored, picked, has_all=len(picked) == len(tasks), golds=golds, findings=findings
    )
    _say_what_failed(failed, findings)
    if is_whole:
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


def _score(
    parts: Sequence[Part],
    tasks: Sequence[Task],
    environment: BaseEnv,
    harness: HarnessConfig | None,
    settings: Mapping[str, Any],
    findings: _Findings,
    progress: Progress,
) -> Rewards:
    """The scores of all attempts; what stops them is a finding, and then there are none."""
    try:
        rollouts = Rollouts(tuple(play_scripts(parts, environment, harness, progress=progress)))
        by_id = {task.id: task for task in tasks}
        return score_rollouts(rollouts, by_id, environment, **settings, progress=progress)
    except ConfigError:
        raise
    except RlftError as error:
        findings.fail(hide(f"scoring stopped: {error.what}" + (f"{WAY_OUT}{error.fix}" if error.fix else "")))
    except Exception as error:  # `context` is the environment's code as well
        findings.fail(f"the attempts could not be put together: {described(error)}")
    return Rewards((), {})


def none_on(parts: Sequence[str], tasks: str) -> str:
    """What to say of parts that apply to nothing."""
    which = f"part {parts[0]} is" if len(parts) == 1 else f"parts {', '.join(parts)} are"
    return f"{which} None on {tasks}{WAY_OUT}return a score (is a `return` missing?), or give the weight 0"


def _is_no_gold(scores: _Scores, environment: BaseEnv) -> bool:
    """Whether the gold is only the answer as text, of an environment with tools, and is full nowhere."""
    solved = any(rewards["gold"].solved for rewards in scores.values() if "gold" in rewards)
    return not solved and has_text_gold(environment) and bool(open_playground(environment, HarnessConfig()).tools)


def has_text_gold(environment: BaseEnv) -> bool:
    """Whether nobody has said what a gold completion is, so that it is the task's answer."""
    return type(environment).gold_completion is BaseEnv.gold_completion


def _golds(tasks: Sequence[Task], environment: BaseEnv, findings: _Findings) -> dict[str, Script]:
    """{task id: gold completion}, for the tasks that have one."""
    golds: dict[str, Script] = {}
    errors: dict[tuple[str, ...], list[str]] = {}
    for task in tasks:
        try:
            gold = environment.gold_completion(task)
            script = None if gold is None else as_script(gold)
        except Exception as error:
            said = described(error, task)
            errors.setdefault(kind_of(Failure("gold_completion", said)), []).append(f"{task.id}: {said}")
            continue
        if script is not None:
            golds[task.id] = script
    for said in errors.values():
        findings.fail(f"gold_completion failed on {len(said)} of {len(tasks)} tasks, for example {said[0]}")
    return golds


def _by_task(rows: Sequence[tuple[str, str, Reward]]) -> tuple[_Scores, list[_Failed]]:
    """Rewards by task and kind, without attacks that are right answers; and those that failed, by what they say."""
    scores: _Scores = defaultdict(dict)
    failed: dict[tuple[str, ...], _Failed] = defaultdict(list)
    for task_id, kind, reward in rows:
        if reward.error is not None:
            failed[kind_of(reward.error)].append((kind, reward))
        else:
            scores[task_id][kind] = reward
    for rewards in scores.values():
        gold = rewards.get("gold")
        for kind in OTHER_ANSWERS:
            if gold and gold.answer is not None and kind in rewards and rewards[kind].answer == gold.answer:
                del rewards[kind]
    return scores, list(failed.values())


def _say_what_never_applies(
    scored: Rewards, picked: Sequence[Task], *, has_all: bool, golds: Mapping[str, Script], findings: _Findings
) -> bool:
    """Whether the other findings say something: not while a part is missing on every task that has a gold."""
    never = never_given((reward.parts for reward in scored), scored.weights)
    is_sure = has_all and all(task.id in golds for task in picked)
    if never and is_sure:
        findings.fail(none_on(never, "every task"))
    elif never:
        findings.note(none_on(never, f"the {len(picked)} tasks tried"))
    return not (never and is_sure)


def _say_what_failed(failed: Sequence[_Failed], findings: _Findings) -> None:
    """A sentence for each error, with all that it kept from being scored."""
    for found in failed:
        kinds = ", ".join(dict.fromkeys(kind for kind, _ in found))
        tasks = list({reward.task_id: reward for _, reward in found}.values())
        findings.fail(f"{kinds} could not be scored {_on(tasks)}: {found[0][1].error}")


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
