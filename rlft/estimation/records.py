"""The rates of past runs of an experiment: what each of their steps has taken, by the attempts that it was about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rlft.config import Config
from rlft.estimation.rates import Rates
from rlft.estimation.span import Span, span_of
from rlft.estimation.work import TaskCounts

_SETUP = ("ingest_tasks", "audit_rewards", "initialize_policy", "leave_out_tasks", "ask_model")
_CONTROLS = ("sft_control", "rejection_sampling_control", "choose_prompt")
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


def counts_of(run: PastRun) -> TaskCounts:
    """Return how many tasks a past run has evaluated its policies on."""
    each = run.settings["evaluation"]["num_generations"]
    often = run.matching("generate_rollouts_pass_at_k_.*")
    return TaskCounts(
        validation=_attempts(run, "generate_rollouts_validation_.*") // each,
        test=often[0].attempts // run.settings["baseline"]["num_generations"] if often else 0,
        final=_attempts(run, "generate_rollouts_trained") // each,
    )


def rates_of_runs(runs: Sequence[PastRun], config: Config, busy: float = 1.0) -> Rates:
    """Return the rates of usable past runs, widened by what one run says less than several.

    `busy` is how many programs each core has to do now, which may be more than when the runs were made. Where an
    attempt may be longer or shorter than theirs, as `rollout.max_completion_length` has changed, time and tokens may,
    too.
    """
    low, high = _SPREAD.get(len(runs), _SETTLED)
    slower = min(busy, _SLOWEST)

    def over(values: list[float | None], factor: Span | float = 1.0) -> Span:
        found = span_of(value for value in values if value is not None) or Span()
        return found.widened(low, high).times(factor)

    def timed(values: list[float | None], factor: Span | float = 1.0) -> Span:
        return over(values, factor).widened(1.0, slower)

    longer = [_length_factor(run, config) for run in runs]
    attempt = Span(min(each.low for each in longer), max(each.high for each in longer))
    more = [config.evaluation.num_generations / run.settings["evaluation"]["num_generations"] for run in runs]
    evaluated = attempt.times(Span(min(more), max(more)))
    on_gpu = any(run.gpu_memory for run in runs)
    held = [run.gpu_memory if on_gpu else run.memory for run in runs]
    return Rates(
        setup=timed([_seconds(run, *_SETUP) for run in runs]),
        warm_start=timed([_seconds(run, "warm_start") or None for run in runs]),
        sample=timed([_per_attempt(run, f"generate_rollouts_{_ROUND}") for run in runs], attempt),
        score=timed([_per_attempt(run, f"score_rewards_{_ROUND}") for run in runs], attempt),
        train=timed([_per_attempt(run, f"train_grpo_{_ROUND}") for run in runs], attempt),
        baseline=timed([_evaluation(run, "baseline") for run in runs], attempt),
        validation=timed([_evaluation(run, "validation_.*") for run in runs], evaluated),
        arm=timed([_evaluation(run, _ARMS) for run in runs], evaluated),
        often=timed([_evaluations(run, "pass_at_k_.*") for run in runs], attempt),
        controls=timed([_controls(run) for run in runs], attempt),
        closing=timed([_closing(run) for run in runs]),
        between=timed([max(run.seconds - sum(s.seconds for s in run.steps), 0) / len(run.steps) for run in runs]),
        tokens=over([_tokens_per_attempt(run) for run in runs], attempt),
        evaluated=over([_evaluated_tokens(run) for run in runs], evaluated),
        memory=_memory(held, attempt),
        on_gpu=on_gpu,
    )


_ARMS = r"(?!validation_|baseline$|pass_at_k_|r[0-9]+$).*"
_EVALUATING = ("generate_rollouts", "score_rewards", "evaluate_policy")


def _attempts(run: PastRun, pattern: str) -> int:
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


def _tokens_per_attempt(run: PastRun) -> float:
    return sum(step.tokens for step in run.matching(f"generate_rollouts_{_ROUND}")) / _rounds_attempts(run)


def _evaluations(run: PastRun, name: str) -> float:
    return sum(step.seconds for kind in _EVALUATING for step in run.matching(f"{kind}_{name}"))


def _evaluation(run: PastRun, name: str) -> float | None:
    """Return the mean seconds of an evaluation of this name; `None` if the run did none itself."""
    count = len(run.matching(f"generate_rollouts_{name}"))
    return _evaluations(run, name) / count if count else None


def _evaluated_tokens(run: PastRun) -> float:
    return sum(step.tokens for step in run.matching(rf"generate_rollouts_(?!{_ROUND}$).*"))


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
