"""The estimate of a run: the work that a config asks for, times what a probe took for a unit of each kind of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rlft.config import Config
from rlft.estimation.machine import Room, Span, room_for
from rlft.evaluation.arms import Arm, PolicyArm

if TYPE_CHECKING:
    from rlft.estimation.probing import Probed

# What a probe does not see: other lengths of attempts later in training, and a machine that does other work then.
_FASTER, _SLOWER = 0.6, 1.6
_LEAST_VARIED = 0.2  # share of the groups that is trained on at least
_LEAST_CONTROL = 0.05  # of the time of the rounds; a control gets at most their FLOPs
_AUDIT = Span(0.2, 30.0)  # seconds, where it was not measured
_CLOSING = Span(1.0, 12.0)  # seconds from the constant answers to the registration
_BETWEEN = Span(0.07, 0.35)  # seconds that ZenML takes for a step beside its work
_PIPELINE = Span(2e8, 8e8)  # bytes that ZenML, MLflow and what they read take in the process of a run
_FIXED_STEPS = 8  # tasks, audit, policy; and from the constant answer to the report
# Several trainers on the cores of one machine take, of the time of one process, up to so much (docs/performance.md).
_SAME_CORES = 1.5


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
        steps=evaluations.times(3).plus(fixed) + Span(0, 2 if _trained_controls(config) else 0),
    )


def _trained_controls(config: Config) -> int:
    return sum(isinstance(arm, PolicyArm) for arm in config.arms())


def _arms(config: Config) -> list[tuple[Arm, int]]:
    """Return the controls that a run may have, each with 1 if it has it certainly, and 0 if it may not.

    Whether the answers and examples that a control needs are there is not in the config.
    """
    wanted = [arm for arm in config.arms() if not arm.why_not(config, has_answers=True)]
    return [(arm, int(not arm.why_not(config, has_answers=False))) for arm in wanted]


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a run: its name, the wall seconds that it takes, and what is done in it, in words."""

    name: str
    seconds: Span
    what: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will take: wall seconds by stage and in all, tokens, memory, and what the numbers rest on.

    `sampled` are the tokens of all rounds, `evaluated` those of evaluations. `gpus` is how many GPUs the run uses.
    `endings` say what would end it early, which the times do not count on, `basis` where the numbers are from.
    """

    stages: Sequence[Stage]
    seconds: Span
    sampled: Span
    evaluated: Span
    room: Room
    gpus: int
    basis: Sequence[str]
    endings: Sequence[str]

    def cost(self, price_per_hour: float) -> Span:
        """Return what the hours of a machine cost at this price, in its currency."""
        return self.seconds.times(price_per_hour / 3600)

    def as_json(self, price_per_hour: float | None) -> dict[str, Any]:
        """Return it as JSON; every range is {low, high}, times are in seconds, memory is in bytes."""
        return {
            "seconds": asdict(self.seconds),
            "stages": {stage.name: {**asdict(stage.seconds), "what": stage.what} for stage in self.stages},
            "tokens": {"rounds": asdict(self.sampled), "evaluations": asdict(self.evaluated)},
            "gpu_hours": asdict(self.seconds.times(self.gpus / 3600)),
            "memory": asdict(self.room),
            "cost": None if price_per_hour is None else asdict(self.cost(price_per_hour)),
            "basis": list(self.basis),
            "endings": list(self.endings),
        }


def estimate_run(config: Config, probed: Probed, gpus: int, there: int) -> Estimate:
    """Return what a run of a config takes of which at least one round was probed; the largest one counts.

    The run uses so many `gpus`, and `there` are the bytes of memory of the machine, or of a GPU if one was used.
    """
    work, tokens = work_of(config, probed.last("tasks")), _of_attempt(probed.last("round"), "tokens")
    rounds, sampled = _rounds(config, probed, work, gpus)
    stages = _stages(config, probed, work, rounds)
    return Estimate(
        stages=stages,
        seconds=_together({stage.name: stage.seconds for stage in stages}, config.training.lag),
        sampled=sampled,
        evaluated=tokens.times(work.evaluated + work.searched),
        room=room_for(config, _memory(probed, config), there, on_gpu=probed.on_gpu),
        gpus=gpus,
        basis=_basis(probed, config),
        endings=_endings(config),
    )


def _rounds(config: Config, probed: Probed, work: Work, gpus: int) -> tuple[dict[str, Span], Span]:
    """Return the seconds of all rounds by stage, and their tokens: of no more rounds than the budget has room for."""
    last, bounds = probed.last("round"), config.budget
    sample, score, train, tokens = (_of_attempt(last, kind) for kind in ("sample", "score", "train", "tokens"))
    train = Span(train.low * max(last["varied"], _LEAST_VARIED), train.high).times(_of_trainers(config, probed))
    seconds = {
        "sampling": sample.times(work.sampled),
        "scoring": score.times(work.sampled),
        "training": train.times(work.trained),
    }
    whole, tokens = _together(seconds, config.training.lag), tokens.times(work.sampled)
    shares = {"low": 1.0, "high": 1.0}  # of the rounds that are done, where they take least and where they take most
    for bound, spent in (
        (bounds.minutes, whole.times(1 / 60)),
        (bounds.gpu_hours, whole.times(gpus / 3600)),
        (bounds.tokens, tokens),
    ):
        for end, share in shares.items():
            if bound is not None and getattr(spent, end) > bound:
                shares[end] = min(share, bound / getattr(spent, end))
    done = Span(shares["low"], shares["high"])
    return {name: _in_order(span.times(done)) for name, span in seconds.items()}, _in_order(tokens.times(done))


def _in_order(span: Span) -> Span:
    """Return a range whose upper end has been bounded: its lower end lies no higher."""
    return Span(min(span.low, span.high), span.high)


def _stages(config: Config, probed: Probed, work: Work, of_rounds: Mapping[str, Span]) -> list[Stage]:
    """Return the stages of a run, in their order; those of its rounds take so many seconds."""
    last, controls = probed.last("round"), _trained_controls(config)
    sample, score = (_of_attempt(last, kind) for kind in ("sample", "score"))
    # Smaller groups share less: an attempt of an evaluation takes longer, at most by what it encodes more.
    encoded = last["encoded"] / last["attempts"]
    shared = last["evaluated"] / encoded if encoded else 1.0
    played = sample.times(Span(min(shared, 1.0), max(shared, 1.0))) + score
    audit = _AUDIT if config.reward.audit and not probed.of("audit") else _seconds(probed, "audit")
    rounds = f"{config.training.rounds:,} rounds, {_counted(work.sampled)} attempts in all"
    evaluated = f"baseline, {work.validations:,} validations, {_counted(work.arms)} models at the end"
    stages = {
        "setup": (
            total([_seconds(probed, "tasks"), _seconds(probed, "model"), audit]),
            "reading tasks, the reward audit, making the model",
        ),
        "warm start": (_seconds(probed, "warm_start"), "imitating demonstrations"),
        "sampling": (of_rounds["sampling"], rounds),
        "scoring": (of_rounds["scoring"], "of the same attempts"),
        "training": (of_rounds["training"], "on those whose groups differ in reward"),
        "evaluation": (played.times(work.evaluated), evaluated),
        "controls": (
            (of_rounds["sampling"] + of_rounds["training"]).times(Span(_LEAST_CONTROL * bool(controls), controls))
            + played.times(work.searched),
            "training with at most the FLOPs of the rounds, and choosing prompts by validation",
        ),
        "conclusion": (
            _CLOSING.times(Span(1, probed.busy)),
            "constant answers, contamination, decision, registration, report",
        ),
        "storing": (
            _BETWEEN.times(Span(1, probed.busy)).times(work.steps),
            f"{_counted(work.steps)} steps of the pipeline",
        ),
    }
    left_out = {"warm start": config.warm_start is None, "controls": not _arms(config)}
    return [Stage(name, *each) for name, each in stages.items() if not left_out.get(name)]


def _together(stages: Mapping[str, Span], lag: int) -> Span:
    """Return the wall seconds of all stages. With a `lag` a round is sampled and scored while another is trained."""
    seconds = dict(stages)
    if lag:
        sampling, training = seconds.pop("sampling") + seconds.pop("scoring"), seconds.pop("training")
        seconds["rounds"] = Span(max(sampling.low, training.low), max(sampling.high, training.high))
    return total(seconds.values())


def _of_trainers(config: Config, probed: Probed) -> Span:
    """Return the time of training as a share of what one process takes.

    On GPUs of their own N trainers take 1/N at least, and 2/(N+1) at most: two were 1.57 times as fast as one
    (docs/performance.md). On the CPUs of a cluster each may have a machine's cores, or all of them those of one.
    """
    if config.trainers == 1:
        return Span(1, 1)
    return Span(1 / config.trainers, 2 / (config.trainers + 1) if probed.on_gpu else _SAME_CORES)


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


def _basis(probed: Probed, config: Config) -> list[str]:
    """Return, in sentences, what a probe has measured, and what it has not."""
    last, warm = probed.last("round"), probed.of("warm_start")
    whole = config.training.tasks_per_round * config.training.num_generations
    said = [
        f"It rests on a probe of {probed.seconds:.0f} s: a round of {last['attempts']:,.0f} attempts, where one of the "
        f"run has {whole:,}."
    ]
    if (warm and not warm[-1]["whole"]) or (not warm and config.policy.from_scratch is not None):
        said.append("The attempts were those of an untrained model, which may be longer or shorter than later ones.")
    if config.reward.audit and not probed.of("audit"):
        said.append("There was no time to measure the reward audit (--seconds gives more).")
    if config.trainers > 1:
        said.append("Several trainers were not measured: what they change in time and memory is assumed.")
    said.append("What comes after the rounds was not measured: controls get at most the FLOPs of the rounds.")
    unknown = [arm.name for arm, _ in _arms(config) if not isinstance(arm, PolicyArm) and arm.validations() is None]
    if unknown:
        said.append(f"The search of these controls is not counted, as another model makes it: {', '.join(unknown)}.")
    return said


def _endings(config: Config) -> list[str]:
    """Return, in sentences, what may end a run early. The times count with a budget alone."""
    evaluation, said = config.evaluation, list[str]()
    bounds = {name: bound for name, bound in config.budget.model_dump().items() if bound is not None}
    if bounds:
        named = " and ".join(f"budget.{name} ({bound:,g})" for name, bound in bounds.items())
        said.append(f"{named} may end the rounds early.")
    earliest = (2 * evaluation.patience - 1) * evaluation.validate_every
    if evaluation.patience and earliest < config.training.rounds:
        said.append(
            f"A plateau may end training from round {earliest:,} on (evaluation.patience: {evaluation.patience})."
        )
    said.append(
        "If the baseline shows that the tasks are too hard or solved "
        f"(baseline.already_solved: {config.baseline.already_solved:g}), the run ends before its first round."
    )
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
