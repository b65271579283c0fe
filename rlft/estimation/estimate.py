"""The estimate of a run: the work that a config asks for, times what a probe took for a unit of each kind of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlft.config import Config
from rlft.estimation.machine import Room, Span, room_for
from rlft.evaluation.arms import Arm, PolicyArm

# What a probe does not see: other lengths of attempts later in training, and a machine that does other work then.
_FASTER, _SLOWER = 0.6, 1.6
_LEAST_VARIED = 0.2  # share of the groups that is trained on at least
_LEAST_CONTROL = 0.05  # of the time of the rounds; a control gets at most their FLOPs
_AUDIT = Span(0.2, 30.0)  # seconds, where it was not measured
_CLOSING = Span(1.0, 12.0)  # seconds from the constant answers to the registration
_BETWEEN = Span(0.07, 0.35)  # seconds that ZenML takes for a step beside its work
_PIPELINE = Span(2e8, 8e8)  # bytes that ZenML, MLflow and what they read take in the process of a run
_FIXED_STEPS = 8  # tasks, audit, policy; and from the constant answer to the report


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe (`rlft.estimation.probe`) has measured, in its order, after so many `seconds`.

    `busy` is how many programs each core of the machine had to do meanwhile, at least 1.
    """

    lines: Sequence[Mapping[str, Any]]
    seconds: float
    busy: float = 1.0

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the measurements of a kind."""
        return [line for line in self.lines if line["kind"] == kind]

    def last(self, kind: str) -> Mapping[str, Any]:
        """Return the last measurement of a kind; there is at least one."""
        return self.of(kind)[-1]

    @property
    def on_gpu(self) -> bool:
        """Whether torch has used a GPU."""
        return bool(self.last("round")["gpu_memory"])


@dataclass(frozen=True, slots=True)
class Work:
    """What a config asks for if no round is left out, in attempts.

    `trained` and `sampled` are those of all rounds (with dynamic sampling more may be sampled), `evaluated` those of
    the baseline, the validations, pass@k and the models at the end (`arms`), `searched` those by which prompts of
    controls are chosen. `steps` of the pipeline are stored.
    """

    trained: int
    sampled: Span
    evaluated: Span
    searched: Span
    validations: int
    arms: Span
    steps: Span


def work_of(config: Config, tasks: Mapping[str, Any]) -> Work:
    """Return what a config asks for, with so many `tasks` in `validation`, `test` and the `final` splits together."""
    training, evaluation, baseline = config.training, config.evaluation, config.baseline
    trained = training.rounds * training.tasks_per_round * training.num_generations
    validations = 1 - (-training.rounds // evaluation.validate_every)  # after every so many rounds, and the last
    often = 2 * min(baseline.num_tasks, tasks["test"]) * baseline.num_generations if evaluation.pass_at_k else 0
    attempted = min(baseline.num_tasks, tasks["validation"]) * baseline.num_generations + often
    attempted += validations * tasks["validation"] * evaluation.num_generations
    own, made = 2 + (config.warm_start is not None), _arms(config)
    arms = Span(own, own + 1) + total(Span(low, 1) for _, low in made)  # there may be a champion, which is evaluated
    searches = [Span(low * found[0], found[1]) for arm, low in made if (found := arm.validations()) is not None]
    evaluations = arms.plus(1 + validations + (2 if often else 0))
    fixed = 3 * training.rounds + _FIXED_STEPS + (config.warm_start is not None)
    return Work(
        trained=trained,
        sampled=Span(trained, trained * training.max_num_gen_batches),  # as many groups as have no variance
        evaluated=arms.times(tasks["final"] * evaluation.num_generations).plus(attempted),
        searched=total(searches).times(tasks["validation"] * evaluation.num_generations),
        validations=validations,
        arms=arms,
        steps=evaluations.times(3).plus(fixed) + Span(0, 2 * any(isinstance(arm, PolicyArm) for arm in config.arms())),
    )


def _arms(config: Config) -> list[tuple[Arm, int]]:
    """Return the controls that a run may have, each with 1 if it has it certainly, and 0 if it may not.

    Whether the answers and examples that a control needs are there is not in the config.
    """
    wanted = [arm for arm in config.arms() if not arm.why_not(config, has_answers=True)]
    return [(arm, int(not arm.why_not(config, has_answers=False))) for arm in wanted]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will take: wall seconds by stage and in all, tokens, memory, and what the numbers rest on.

    `sampled` are the tokens of all rounds, `evaluated` those of evaluations. `gpus` is how many GPUs the run uses.
    """

    stages: Mapping[str, Span]
    seconds: Span
    sampled: Span
    evaluated: Span
    room: Room
    gpus: int
    basis: Sequence[str]

    def cost(self, price_per_hour: float) -> Span:
        """Return what the hours of a machine cost at this price, in its currency."""
        return self.seconds.times(price_per_hour / 3600)

    def as_json(self, price_per_hour: float | None) -> dict[str, Any]:
        """Return it as JSON; every range is {low, high}, times are in seconds, memory is in bytes."""
        return {
            "seconds": asdict(self.seconds),
            "stages": {name: asdict(seconds) for name, seconds in self.stages.items()},
            "tokens": {"rounds": asdict(self.sampled), "evaluations": asdict(self.evaluated)},
            "gpu_hours": asdict(self.seconds.times(self.gpus / 3600)),
            "memory": asdict(self.room),
            "cost": None if price_per_hour is None else asdict(self.cost(price_per_hour)),
            "basis": list(self.basis),
        }


def estimate_run(config: Config, probed: Probed, gpus: int, there: int) -> Estimate:
    """Return what a run of a config takes of which at least one round was probed; the largest one counts.

    The run uses so many `gpus`, and `there` are the bytes of memory of the machine, or of a GPU if one was used.
    """
    work, tokens = work_of(config, probed.last("tasks")), _of_attempt(probed.last("round"), "tokens")
    stages = _stages(config, probed, work)
    return Estimate(
        stages=stages,
        seconds=_together(stages, config.training.lag),
        sampled=tokens.times(work.sampled),
        evaluated=tokens.times(work.evaluated + work.searched),
        room=room_for(config, _memory(probed, config), there, on_gpu=probed.on_gpu),
        gpus=gpus,
        basis=_basis(probed, config, work),
    )


def _stages(config: Config, probed: Probed, work: Work) -> dict[str, Span]:
    """Return {stage: its wall seconds} of a run, in their order."""
    last, controls = probed.last("round"), sum(isinstance(arm, PolicyArm) for arm in config.arms())
    sample, score, train = (_of_attempt(last, kind) for kind in ("sample", "score", "train"))
    sampling, training = sample.times(work.sampled), Span(_LEAST_VARIED * train.low, train.high).times(work.trained)
    audit = _AUDIT if config.reward.audit and not probed.of("audit") else _seconds(probed, "audit")
    stages = {
        "setup": total([_seconds(probed, "tasks"), _seconds(probed, "model"), audit]),
        "warm start": _seconds(probed, "warm_start"),
        "sampling": sampling,
        "scoring": score.times(work.sampled),
        "training": training,
        "evaluation": (sample + score).times(work.evaluated),
        "controls": (sampling + training).times(Span(_LEAST_CONTROL * bool(controls), controls))
        + (sample + score).times(work.searched),
        "conclusion": _CLOSING.times(Span(1, probed.busy)),
        "storing": _BETWEEN.times(Span(1, probed.busy)).times(work.steps),
    }
    left_out = {"warm start": config.warm_start is None, "controls": not _arms(config)}
    return {name: seconds for name, seconds in stages.items() if not left_out.get(name)}


def _together(stages: Mapping[str, Span], lag: int) -> Span:
    """Return the wall seconds of all stages. With a `lag` a round is sampled and scored while another is trained."""
    seconds = dict(stages)
    if lag:
        sampling, training = seconds.pop("sampling") + seconds.pop("scoring"), seconds.pop("training")
        seconds["rounds"] = Span(max(sampling.low, training.low), max(sampling.high, training.high))
    return total(seconds.values())


def _memory(probed: Probed, config: Config) -> Span:
    """Return the bytes that a run holds at most: attempts side by side need more, up to `rollout.batch_size`.

    On CPUs each of several trainers holds as much beside the run's own process, on GPUs the first one does.
    """
    kind = "gpu_memory" if probed.on_gpu else "memory"
    last, tasks, model = (probed.last(each) for each in ("round", "tasks", "model"))
    held, attempts = last[kind], config.training.tasks_per_round * config.training.num_generations
    weights = max(model[kind] - (tasks[kind] or 0), 0)
    side_by_side = min(attempts, max(config.rollout.batch_size, last["attempts"]))
    more = max(held - model[kind], 0) * max(side_by_side / last["attempts"] - 1, 0)
    needed = Span(held, held + more + weights)  # a second policy: the reference, or the one that is evaluated
    if not probed.on_gpu:
        needed += _PIPELINE
    beside = 0 if config.trainers == 1 else 1 if probed.on_gpu else config.trainers
    return needed + Span(0, needed.high * beside)


def _basis(probed: Probed, config: Config, work: Work) -> list[str]:
    """Return, in sentences, what a probe has measured, and what it has not."""
    last, warm = probed.last("round"), probed.of("warm_start")
    whole = config.training.tasks_per_round * config.training.num_generations
    said = [
        f"It rests on a probe of {probed.seconds:.0f} s: a round of {last['attempts']:,.0f} attempts, where one of the "
        f"run has {whole:,}.",
        f"It counts {_counted(work.sampled)} attempts of the rounds, the baseline, {work.validations:,} validations, "
        f"and {_counted(work.arms)} models at the end.",
    ]
    if (warm and not warm[-1]["whole"]) or (not warm and config.policy.from_scratch is not None):
        said.append("The attempts were those of an untrained model, which may be longer or shorter than later ones.")
    if config.reward.audit and not probed.of("audit"):
        said.append("There was no time to measure the reward audit (--seconds gives more).")
    if config.trainers > 1:
        said.append("Several trainers were not measured: the time of training is that of one.")
    if bounds := [f"budget.{name}" for name, bound in config.budget.model_dump().items() if bound is not None]:
        said.append(f"{' and '.join(bounds)} may end the rounds early; these numbers are those of all rounds.")
    said.append("What comes after the rounds was not measured: controls get at most the FLOPs of the rounds.")
    unknown = [arm.name for arm, _ in _arms(config) if not isinstance(arm, PolicyArm) and arm.validations() is None]
    if unknown:
        said.append(f"The search of these controls is not counted, as another model makes it: {', '.join(unknown)}.")
    return said


def total(spans: Iterable[Span]) -> Span:
    """Return the range of a sum."""
    return sum(spans, Span())


def _of_attempt(last: Mapping[str, Any], kind: str) -> Span:
    return Span(_FASTER, _SLOWER).times(last[kind] / last["attempts"])


def _seconds(probed: Probed, kind: str) -> Span:
    return Span(_FASTER, _SLOWER).times(probed.last(kind)["seconds"]) if probed.of(kind) else Span()


def _counted(span: Span) -> str:
    low, high = round(span.low), round(span.high)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
