"""What a unit of each kind of work takes."""

from __future__ import annotations

from dataclasses import dataclass

from rlft.estimation.span import Span


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
    memory: Span | None = None
    on_gpu: bool = False
