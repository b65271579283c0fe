"""The rates of past runs of an experiment: what each of their steps has taken, by the attempts that it was about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rlft.config import Config, DistributedConfig
from rlft.estimation.rates import Rates
from rlft.estimation.span import Span, around, exactly, span_of
from rlft.estimation.trainers import carried_over
from rlft.estimation.work import Work

_SETUP = ("ingest_tasks", "audit_rewards", "initialize_policy", "leave_out_tasks", "ask_model")
_CONTROLS = ("sft_control", "rejection_sampling_control", "choose_prompt")
# One run of a steady machine: where runs differ by a log-sd of 0.1, 0.2 and 0.47, it holds the next in 96, 70 and 34 %.
_SPREAD = {1: (0.75, 1.35), 2: (0.8, 1.25)}  # by how many runs there are: what a machine's other work does to a run
_SETTLED = (0.85, 1.2)
_SLOWEST = 2.0  # as often as long a run may take on a machine that is busier than it was
_ROUND = r"r[0-9]+"


@dataclass(frozen=True, slots=True)
class PastStep:
    """A step of a past run: its wall seconds, and how many attempts and tokens it stored, 0 for other steps."""

    name: str
    seconds: float
    attempts: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class PastRun:
    """A past run that has ended: its name, settings, the steps that it did itself, and its wall seconds.

    `memory` is the most bytes that its process held, and `gpu_memory` on a GPU, if that is known.
    """

    name: str
    settings: Mapping[str, Any]
    steps: Sequence[PastStep]
    seconds: float
    memory: float | None = None
    gpu_memory: float | None = None

    def matching(self, pattern: str) -> list[PastStep]:
        """Return the steps whose names a regular expression matches as a whole."""
        return [step for step in self.steps if re.fullmatch(pattern, step.name)]

    @property
    def is_usable(self) -> bool:
        """Whether it has sampled and trained rounds itself, and evaluated what came of them."""
        names = (f"generate_rollouts_{_ROUND}", f"train_grpo_{_ROUND}", "generate_rollouts_trained")
        return all(self.matching(name) for name in names)


def rates_of_runs(runs: Sequence[PastRun], config: Config, work: Work, busy: float = 1.0) -> Rates:
    """Return the rates of usable past runs, widened by what one run says less than several.

    Evaluations are carried over by their attempts; where no run has done one itself, its attempts are those of rounds.
    `busy` is how many programs each core has to do now, which may be more than when the runs were made. Where an
    attempt may be longer or shorter than theirs, as `rollout.max_completion_length` has changed, time and tokens may,
    too.
    """
    low, high = _SPREAD.get(len(runs), _SETTLED)
    slower = min(busy, _SLOWEST)

    def over(values: Sequence[float | Span | None], factor: Span | float = 1.0) -> Span:
        return around(value for value in values if value is not None).widened(low, high).times(factor)

    def timed(values: Sequence[float | Span | None], factor: Span | float = 1.0) -> Span:
        return over(values, factor).widened(1.0, slower)

    attempt = around(_length_factor(run, config) for run in runs)
    sample = timed([_per_attempt(run, f"generate_rollouts_{_ROUND}") for run in runs], attempt)
    score = timed([_per_attempt(run, f"score_rewards_{_ROUND}") for run in runs], attempt)
    tokens = over([_tokens_per_attempt(run, _ROUND) for run in runs], attempt)

    def evaluation(name: str, attempts: int) -> Span:
        seconds = timed([_evaluation(run, name, attempts) for run in runs], attempt)
        return seconds if seconds.high else (sample + score).times(attempts)

    def evaluated(name: str, attempts: int) -> Span:
        each = over([_tokens_per_attempt(run, name) for run in runs], attempt)
        return (each if each.high else tokens).times(attempts)

    on_gpu = any(run.gpu_memory for run in runs)
    held = [run.gpu_memory if on_gpu else run.memory for run in runs]
    return Rates(
        setup=timed([_seconds(run, *_SETUP) for run in runs]),
        warm_start=timed([_seconds(run, "warm_start") or None for run in runs]),
        sample=sample,
        score=score,
        train=timed(
            [_trained(run, config, on_gpu=on_gpu) for run in runs], attempt.times(_groups_factor(runs, config))
        ),
        baseline=evaluation("baseline", work.baseline),
        validation=evaluation(_VALIDATION, work.validation),
        arm=evaluation(_ARMS, work.arm),
        often=evaluation(_OFTEN, work.often // 2).times(2),  # of the base and of the trained model
        controls=timed([_controls(run) for run in runs], attempt),
        closing=timed([_closing(run) for run in runs]),
        between=timed([max(run.seconds - sum(s.seconds for s in run.steps), 0) / len(run.steps) for run in runs]),
        tokens=tokens,
        evaluated=evaluated("baseline", work.baseline)
        + evaluated(_VALIDATION, work.validations * work.validation)
        + evaluated(_ARMS, work.arm).times(work.arms)
        + evaluated(_OFTEN, work.often),
        memory=_memory(held, attempt),
        on_gpu=on_gpu,
    )


_VALIDATION, _OFTEN = "validation_.*", "pass_at_k_.*"
_ARMS = r"(?!validation_|baseline$|pass_at_k_|r[0-9]+$).*"
_EVALUATING = ("generate_rollouts", "score_rewards", "evaluate_policy")


def attempts_of(run: PastRun, pattern: str) -> int:
    """Return the most attempts that a step of a past run with such a name has stored."""
    return max((step.attempts for step in run.matching(pattern)), default=0)


def _seconds(run: PastRun, *names: str) -> float:
    return sum(step.seconds for name in names for step in run.matching(f"{name}(_.*)?"))


def _rounds_attempts(run: PastRun) -> int:
    return sum(step.attempts for step in run.matching(f"generate_rollouts_{_ROUND}"))


def _per_attempt(run: PastRun, pattern: str) -> float:
    """Return the seconds of the steps of rounds, by the attempts of as many rounds."""
    steps = run.matching(pattern)
    sampled = run.matching(f"generate_rollouts_{_ROUND}")
    mean = fmean(step.attempts for step in sampled)
    return sum(step.seconds for step in steps) / (mean * len(steps)) if steps else 0.0


def _trained(run: PastRun, config: Config, *, on_gpu: bool) -> Span:
    """Return the seconds of training by the attempts of a round, without those that are sampled in place of others.

    They are carried over to as many trainers as the config has.
    """
    steps, training = run.matching(f"train_grpo_{_ROUND}"), run.settings["training"]
    sampled = fmean(step.attempts for step in run.matching(f"generate_rollouts_{_ROUND}"))
    asked = min(sampled, training["tasks_per_round"] * training["num_generations"])
    before = run.settings.get("distributed")
    settings = DistributedConfig.model_validate(before) if before else None
    taken = exactly(sum(step.seconds for step in steps) / (asked * len(steps)))
    return taken.times(carried_over(settings, config.distributed, on_gpu=on_gpu))


def _groups_factor(runs: Sequence[PastRun], config: Config) -> Span:
    """Return how many times as many groups as in these runs may have variance, and so be trained on."""
    ratios = [config.training.max_num_gen_batches / run.settings["training"]["max_num_gen_batches"] for run in runs]
    return Span(min(1.0, *ratios), max(1.0, *ratios))


def _tokens_per_attempt(run: PastRun, name: str) -> float | None:
    steps = run.matching(f"generate_rollouts_{name}")
    attempts = sum(step.attempts for step in steps)
    return sum(step.tokens for step in steps) / attempts if attempts else None


def _evaluations(run: PastRun, name: str) -> float:
    return sum(step.seconds for kind in _EVALUATING for step in run.matching(f"{kind}_{name}"))


def _evaluation(run: PastRun, name: str, attempts: int) -> Span | None:
    """Return the mean seconds of an evaluation of this name with so many attempts; `None` if the run did none itself.

    What does not grow with the attempts, such as loading a policy, is taken for half of the time at most.
    """
    steps = run.matching(f"generate_rollouts_{name}")
    before = sum(step.attempts for step in steps)
    if not before:
        return None
    ratio = attempts * len(steps) / before
    half = (1 + ratio) / 2 if attempts else 0.0
    return Span(min(ratio, half), max(ratio, half)).times(_evaluations(run, name) / len(steps))


def _controls(run: PastRun) -> float:
    return _seconds(run, *_CONTROLS) / _rounds_attempts(run)


def _closing(run: PastRun) -> float:
    named = (*_SETUP, *_CONTROLS, *_EVALUATING, "warm_start", "train_grpo")
    others = [step for step in run.steps if not any(step.name.startswith(name) for name in named)]
    return sum(step.seconds for step in others)


def _length_factor(run: PastRun, config: Config) -> Span:
    ratio = config.rollout.max_completion_length / run.settings["rollout"]["max_completion_length"]
    return Span(min(1.0, ratio), max(1.0, ratio))


def _memory(held: list[float | None], attempt: Span) -> Span | None:
    """Return the bytes that runs held; those of one that does not say are not known."""
    known = span_of(value for value in held if value is not None)
    return None if known is None else known.times(Span(1.0, 1.1 * attempt.high))


def changed_settings(runs: Sequence[PastRun], config: Config) -> list[str]:
    """Return the settings, as `section.name`, in which a config differs from the newest of these runs."""
    now, before = _flat(config.model_dump(mode="json")), _flat(runs[0].settings)
    return sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))


def _flat(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= _flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {f"{above}{name}": value}
    return found


def fits(run: PastRun, config: Config) -> bool:
    """Return whether a past run tells what one of this config takes: the same model, engine and environment."""
    settings = config.model_dump(mode="json")

    def of(found: Mapping[str, Any]) -> list[Any]:
        policy = {name: value for name, value in found["policy"].items() if name != "keep"}
        return [policy, found["rollout"]["engine"], found["environment"]["name"]]

    return of(run.settings) == of(settings)
