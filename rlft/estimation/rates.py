"""What a unit of each kind of work takes: what a few attempts of the probe took, carried over to rounds of many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlft.config import Config, DistributedConfig
from rlft.estimation.probing import Probed
from rlft.estimation.span import Span, exactly, total
from rlft.estimation.work import TaskCounts, Work

# What a probe does not see: other lengths of attempts later in training, and a machine that does other work then.
_FASTER, _SLOWER = 0.6, 1.6
_LEAST_VARIED = 0.2  # share of the groups that is trained on at least
_CONTROLS = (0.05, 1.0)  # of the time of the rounds, for each control: it gets at most their FLOPs
_AUDIT = Span(0.2, 30.0)  # seconds, where it was not measured
_CLOSING = Span(1.0, 12.0)  # seconds from the constant answers to the registration
_BETWEEN = Span(0.07, 0.35)  # seconds that ZenML takes for a step beside its work
_PIPELINE = Span(2e8, 8e8)  # bytes that ZenML, MLflow and what they read take in the process of a run
# Of several trainers on CPUs, of the time of one process that has all the cores: these do the same work otherwise.
_SAME_CORES = Span(0.75, 1.5)


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds of each kind of work, tokens, and memory.

    `setup` is reading tasks, the audit and making the policy; `sample`, `score` and `tokens` are those of an attempt
    that is sampled in a round, and `train` of one that the round asks for, without those in place of others (dynamic
    sampling). `baseline` and `often` (pass@k) are for all of their attempts, `validation` and `arm` for one evaluation.
    `controls` is for a sampled attempt of all rounds, as controls get the FLOPs of these. `closing` is what comes once
    at the end, `between` what a step of the pipeline takes beside its work, and `evaluated` are the tokens of all
    evaluations. `memory` is the most bytes that the process held, on a GPU if `on_gpu`.
    """

    setup: Span
    warm_start: Span
    sample: Span
    score: Span
    train: Span
    baseline: Span
    validation: Span
    arm: Span
    often: Span
    controls: Span
    closing: Span
    between: Span
    tokens: Span
    evaluated: Span
    memory: Span
    on_gpu: bool = False


def counts_of_probe(probed: Probed) -> TaskCounts:
    """Return how many tasks the splits have."""
    [tasks] = probed.of("tasks")
    return TaskCounts(int(tasks["validation"]), int(tasks["test"]), int(tasks["final"]))


def rates_of_probe(probed: Probed, config: Config, work: Work) -> Rates:
    """Return the rates of a probe that has measured at least one round; the largest one counts."""
    last = probed.of("round")[-1]
    on_gpu = bool(last["gpu_memory"])
    sample, score, train = (_of_attempt(last, kind) for kind in ("sample", "score", "train"))
    train = Span(train.low * max(last["varied"], _LEAST_VARIED), train.high)
    train = train.times(time_share(config.distributed, on_gpu=on_gpu))
    # Smaller groups share less: an attempt of an evaluation takes longer, at most by what it encodes more.
    encoded = last["encoded"] / last["attempts"]
    shared = last["evaluated"] / encoded if encoded else 1.0
    played = sample.widened(min(shared, 1.0), max(shared, 1.0)) + score
    controls = config.wants_control("sft") + config.wants_control("rejection_sampling")
    tokens = _of_attempt(last, "tokens")
    evaluations = exactly(work.baseline + work.often + work.validations * work.validation) + work.arms.times(work.arm)
    audit = _AUDIT if config.reward.audit and not probed.of("audit") else _seconds(probed, "audit")
    return Rates(
        setup=total([_seconds(probed, "tasks"), _seconds(probed, "model"), audit]),
        warm_start=_seconds(probed, "warm_start"),
        sample=sample,
        score=score,
        train=train,
        baseline=played.times(work.baseline),
        validation=played.times(work.validation),
        arm=played.times(work.arm),
        often=played.times(work.often),
        controls=(sample + train).times(Span(_CONTROLS[0], controls * _CONTROLS[1])),
        closing=_CLOSING.widened(1, probed.busy),
        between=_BETWEEN.widened(1, probed.busy),
        tokens=tokens,
        evaluated=tokens.times(evaluations),
        memory=_memory(probed, config, work, "gpu_memory" if on_gpu else "memory"),
        on_gpu=on_gpu,
    )


def time_share(settings: DistributedConfig | None, *, on_gpu: bool) -> Span:
    """Return the time of training as a share of what one process takes.

    On GPUs of their own N trainers take 1/N at least, and 2/(N+1) at most: two were 1.57 times as fast as one
    (docs/performance.md). On the CPUs of a cluster each may have a machine's cores, or all of them those of one.
    """
    if settings is None or settings.trainers == 1:
        return exactly(1.0)
    if not on_gpu:
        return Span(1 / settings.trainers, _SAME_CORES.high) if settings.address else _SAME_CORES
    return Span(1 / settings.trainers, 2 / (settings.trainers + 1))


def basis_of(probed: Probed, config: Config) -> list[str]:
    """Return, in sentences, what a probe has measured, and what it has not."""
    last = probed.of("round")[-1]
    whole = config.training.tasks_per_round * config.training.num_generations
    said = [
        f"It rests on a probe of {probed.seconds:.0f} s: a round of {last['attempts']:,.0f} attempts, where one of the "
        f"run has {whole:,}."
    ]
    warm = probed.of("warm_start")
    if (warm and not warm[-1]["whole"]) or (not warm and config.policy.from_scratch is not None):
        said.append("The attempts were those of an untrained model, which may be longer or shorter than later ones.")
    if config.reward.audit and not probed.of("audit"):
        said.append("There was no time to measure the reward audit (--seconds gives more).")
    if config.distributed is not None and config.distributed.trainers > 1:
        said.append("Several trainers were not measured: what they change in time and memory is assumed.")
    said.append("What comes after the rounds was not measured: controls get at most the FLOPs of the rounds.")
    return said


def _of_attempt(last: Mapping[str, Any], kind: str) -> Span:
    return exactly(last[kind] / last["attempts"]).widened(_FASTER, _SLOWER)


def _seconds(probed: Probed, kind: str) -> Span:
    found = probed.of(kind)
    return exactly(found[-1]["seconds"]).widened(_FASTER, _SLOWER) if found else Span()


def _memory(probed: Probed, config: Config, work: Work, kind: str) -> Span:
    """Return the bytes that a run holds at most: attempts side by side need more, up to `rollout.batch_size`.

    On CPUs each of several trainers holds as much beside the run's own process, on GPUs the first one does.
    """
    last, [tasks], [model] = probed.of("round")[-1], probed.of("tasks"), probed.of("model")
    held = last[kind]
    weights = max(model[kind] - (tasks[kind] or 0), 0)
    side_by_side = min(work.attempts, max(config.rollout.batch_size, last["attempts"]))
    more = max(held - model[kind], 0) * max(side_by_side / last["attempts"] - 1, 0)
    needed = Span(held, held + more + weights)  # a second policy: the reference, or the one that is evaluated
    if kind == "memory":
        needed += _PIPELINE
    trainers = config.distributed.trainers if config.distributed is not None else 1
    beside = 0 if trainers == 1 else 1 if kind == "gpu_memory" else trainers
    return needed + Span(0, needed.high * beside)
