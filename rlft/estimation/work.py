"""How much of each kind of work a config asks for, in attempts, updates and steps of the pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from rlft.config import Config
from rlft.estimation.span import Span, exactly

_PREPARING, _CLOSING = 3, 5  # steps before and after all others: tasks, audit, policy; constant answer to report


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """How many tasks there are in `validation` and `test`, and in the `final` splits: gate, test, off_distribution."""

    validation: int
    test: int
    final: int


@dataclass(frozen=True, slots=True)
class Work:
    """What a config asks for if no round is left out.

    `rounds` that train on up to `attempts` each, of the `sampled` ones; one `baseline`, `validations` and `arms` of so
    many attempts (`arms` evaluations with `arm` attempts each); `often` are attempts for pass@k. `controls` says
    whether any is trained. `steps` of the pipeline are stored, `per_round` of them in each round. With a `lag` the
    next round is sampled while one is trained.
    """

    rounds: int
    attempts: int
    sampled: Span
    baseline: int
    validations: int
    validation: int
    arms: Span
    arm: int
    often: int
    controls: bool
    warm_start: bool
    steps: Span
    per_round: int = 3
    lag: int = 0


def work_of(config: Config, tasks: TaskCounts) -> Work:
    """Return what a config asks for with so many tasks."""
    training, evaluation, baseline = config.training, config.evaluation, config.baseline
    validations = 1 + validations_after(training.rounds, evaluation.validate_every)
    attempts = training.tasks_per_round * training.num_generations
    warm, often = config.warm_start is not None, 0
    arms = _arms(config)
    if evaluation.pass_at_k:
        often = 2 * min(baseline.num_tasks, tasks.test) * baseline.num_generations
    trained = config.wants_control("sft") or config.wants_control("rejection_sampling")
    evaluations = arms + exactly(1 + validations + (2 if often else 0))
    fixed = 3 * training.rounds + _PREPARING + _CLOSING + warm
    return Work(
        rounds=training.rounds,
        attempts=attempts,
        sampled=Span(attempts, attempts * training.max_num_gen_batches),  # as many groups as have no variance
        baseline=min(baseline.num_tasks, tasks.validation) * baseline.num_generations,
        validations=validations,
        validation=tasks.validation * evaluation.num_generations,
        arms=arms,
        arm=tasks.final * evaluation.num_generations,
        often=often,
        controls=trained,
        warm_start=warm,
        steps=evaluations.times(3) + exactly(fixed) + Span(0, 2 if trained else 0),
        lag=training.lag,
    )


def validations_after(rounds: int, every: int) -> int:
    """Return how many validations so many rounds have: after every so many of them, and after the last."""
    return -(-rounds // every)


def _arms(config: Config) -> Span:
    """Return how many models are evaluated at the end.

    Whether there is a champion, and whether the answers and examples that a control needs, is not in the config.
    """
    sure = 2 + (config.warm_start is not None) + config.wants_control("rejection_sampling")
    sure += config.other_model is not None
    can_read_examples = config.policy.model is not None
    maybe = 1 + config.wants_control("sft") + (config.wants_control("few_shot") and can_read_examples)
    return Span(sure, sure + maybe)
