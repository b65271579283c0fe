"""The rates that follow from a probe: what a few attempts took, carried over to a round of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlft.config import Config
from rlft.estimation.busy import said_of
from rlft.estimation.probing import Probed
from rlft.estimation.rates import Rates
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

Line = Mapping[str, Any]


def counts_of_probe(probed: Probed) -> TaskCounts:
    """Return how many tasks the splits have."""
    [tasks] = probed.of("tasks")
    return TaskCounts(int(tasks["validation"]), int(tasks["test"]), int(tasks["final"]))


def rates_of_probe(probed: Probed, config: Config, work: Work) -> Rates:
    """Return the rates of a probe that has measured at least one round."""
    rounds = probed.of("round")
    sample, score, train = (_per_attempt(rounds, kind, work.attempts) for kind in ("sample", "score", "train"))
    varied = max(rounds[-1]["varied"], _LEAST_VARIED)
    # Smaller groups share less: an attempt of an evaluation takes longer, at most by what it encodes more.
    encoded = rounds[-1]["encoded"] / rounds[-1]["attempts"]
    shared = rounds[-1]["evaluated"] / encoded if encoded else 1.0
    played = sample.widened(min(shared, 1.0), max(shared, 1.0)) + score
    controls = config.wants_control("sft") + config.wants_control("rejection_sampling")
    length = rounds[-1]["tokens"] / rounds[-1]["attempts"]
    tokens = Span(_FASTER * length, _SLOWER * length)
    evaluations = exactly(work.baseline + work.often + work.validations * work.validation) + work.arms.times(work.arm)
    return Rates(
        setup=total([_seconds(probed, "tasks"), _seconds(probed, "model"), _audit(probed, config)]),
        warm_start=_seconds(probed, "warm_start"),
        sample=sample,
        score=score,
        train=Span(train.low * varied, train.high),
        baseline=played.times(work.baseline),
        validation=played.times(work.validation),
        arm=played.times(work.arm),
        often=played.times(work.often),
        controls=(sample + train).times(Span(_CONTROLS[0], controls * _CONTROLS[1])),
        closing=_CLOSING.widened(1, probed.busy),
        between=_BETWEEN.widened(1, probed.busy),
        tokens=tokens,
        evaluated=tokens.times(evaluations),
        memory=_memory(probed, config, work),
        on_gpu=_on_gpu(rounds[-1]),
    )


def _per_attempt(rounds: Sequence[Line], kind: str, attempts: int) -> Span:
    """Return the seconds of an attempt in a round of so many, from rounds that may have had fewer.

    Many at once are faster: they take no more than the largest measured ones each, and no less than a line through the
    two largest says.
    """
    last, dear = rounds[-1], rounds[-1][kind] / rounds[-1]["attempts"]
    cheap = dear
    if len(rounds) > 2 and last["attempts"] < attempts:  # the first also tries out what is tried out at a first use
        before = rounds[-2]
        slope = max(last[kind] - before[kind], 0.0) / (last["attempts"] - before["attempts"])
        cheap = min(dear, (last[kind] + slope * (attempts - last["attempts"])) / attempts)
    return Span(_FASTER * cheap, _SLOWER * dear)


def _seconds(probed: Probed, kind: str) -> Span:
    found = probed.of(kind)
    return exactly(found[-1]["seconds"]).widened(_FASTER, _SLOWER) if found else Span()


def _audit(probed: Probed, config: Config) -> Span:
    if not config.reward.audit:
        return Span()
    return _seconds(probed, "audit") if probed.of("audit") else _AUDIT


def _on_gpu(line: Line) -> bool:
    return bool(line["gpu_memory"])


def _memory(probed: Probed, config: Config, work: Work) -> Span:
    """Return the bytes that a run holds at most: attempts side by side need more, up to `rollout.batch_size`."""
    rounds = probed.of("round")
    kind = "gpu_memory" if _on_gpu(rounds[-1]) else "memory"
    held, [tasks], [model] = rounds[-1][kind], probed.of("tasks"), probed.of("model")
    weights = max(model[kind] - (tasks[kind] or 0), 0)
    side_by_side = min(work.attempts, max(config.rollout.batch_size, rounds[-1]["attempts"]))
    more = max(held - model[kind], 0) * max(side_by_side / rounds[-1]["attempts"] - 1, 0)
    needed = Span(held, held + more + weights)  # a second policy: the reference, or the one that is evaluated
    return needed if kind == "gpu_memory" else needed + _PIPELINE


def basis_of(probed: Probed, config: Config) -> list[str]:
    """Return, in sentences, what a probe has measured, and what it has not."""
    last = probed.of("round")[-1]
    whole = config.training.tasks_per_round * config.training.num_generations
    said = [
        f"It rests on a probe of {probed.seconds:.0f} s: a round of {last['attempts']:,.0f} attempts, where one of the "
        f"run has {whole:,}."
    ]
    if last["encoded"] < last["of_sequences"]:
        said.append(
            f"Common beginnings are encoded once: {last['encoded']:,.0f} of {last['of_sequences']:,.0f} tokens."
        )
    warm = probed.of("warm_start")
    if (warm and not warm[-1]["whole"]) or (not warm and config.policy.from_scratch is not None):
        said.append("The attempts were those of an untrained model, which may be longer or shorter than later ones.")
    if config.reward.audit and not probed.of("audit"):
        said.append("There was no time to measure the reward audit (--seconds gives more).")
    said += said_of(probed.busy)
    said.append("What comes after the rounds was not measured: controls get at most the FLOPs of the rounds.")
    return said
