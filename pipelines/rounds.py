"""The rounds of a run: sample, score, train and now and then validate, until it no longer helps.

`Rounds` is what they have come to: policies, reports, validations and costs.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from mlops.ids import validation_name
from mlops.runs.policies import Retention
from mlops.tracking.run import Tracker
from mlops.tracking.traces import ROUND_TAG, choose_rollouts, log_rollouts
from pipelines.showing import Show
from pipelines.stages import Artifact, Scored, Stages
from rlft.config import Config
from rlft.evaluation.comparison import is_better
from rlft.evaluation.diagnosis.monitors import Alarm
from rlft.evaluation.evaluate import curve_points
from rlft.evaluation.metrics import sampled_tokens
from rlft.evaluation.stopping import TOKENS, Account, plateau
from rlft.evaluation.variety import collapse, named
from rlft.models.flops import ROLLOUT_FLOPS, TRAIN_FLOPS
from rlft.outcome import FATES
from rlft.training.groups import RESAMPLING
from rlft.types import Evaluation, EvaluationReport, Judging, TrainReport, add_judging, judging_in


@dataclass
class Rounds:
    """What the rounds came to: the best validated policy, a report for each round, and why training ended early.

    `best_round` is the number of rounds that were done when `best` was validated; it is 0 while `best` is the policy
    that training started from.
    """

    best: Artifact
    best_round: int = 0
    best_report: EvaluationReport | None = None
    reports: list[TrainReport] = field(default_factory=list)
    unused: TrainReport | None = None  # of a round that was sampled ahead when training ended
    stopped: str = ""
    validations: list[float] = field(default_factory=list)  # the FLOPs of each
    validations_judging: list[Judging | None] = field(default_factory=list)
    start_report: EvaluationReport | None = None
    validated: dict[int, EvaluationReport] = field(default_factory=dict)  # by the number of rounds before
    alarms: dict[str, Alarm] = field(default_factory=dict)  # by monitor, the first of each
    is_stored: bool = False  # whether the last of them was done earlier, and came from the store
    counted: list[dict[str, int]] = field(default_factory=list)  # what `counts` has counted of the first reports

    def note_cost(self, validation: Evaluation) -> None:
        """Note what a validation took."""
        self.validations.append(validation.flops or 0.0)
        self.validations_judging.append(validation.judging)

    def note_validation(self, policy: Artifact, number: int, validation: Evaluation, metric: str) -> None:
        """Take the evaluation of a policy after `number` rounds, which may be the best so far.

        Rollouts without a score count as the lowest one, so that no policy is the best because its hard tasks failed.
        """
        self.note_cost(validation)
        self.validated[number] = report = validation.splits["validation"]
        if is_better(report, self.best_report, metric):
            self.best, self.best_round, self.best_report = policy, number, report

    def plateau(self, config: Config) -> str:
        """Return why the last `evaluation.patience` validations are no rise; empty if they are one, or are too few.

        Validations that failed, without any score, are not counted.
        """
        patience, metric = config.evaluation.patience, config.chosen_by
        scored = [report for _, report in sorted(self.validated.items()) if report.per_task.get(metric)]
        reports = scored[-2 * patience :]
        reason = plateau(reports, metric) if 0 < 2 * patience == len(reports) else ""
        return f"plateau: {reason}" if reason else ""

    def stopping_alarm(self) -> str:
        """Return the name of a monitor whose alarm was to end training; empty if there is none."""
        return next((name for name, alarm in self.alarms.items() if alarm.action == "stop"), "")

    def often_said(self) -> list[str]:
        """Return completions that the policy gave often in validation, before training and when it was the best."""
        reports = [each for each in (self.start_report, self.best_report) if each is not None]
        return list(dict.fromkeys(text for report in reports for text in report.frequent))

    def counts(self) -> dict[str, int]:
        """Return how many rollouts of all rounds were sampled, trained on, filtered and errored."""
        totals: dict[str, int] = dict.fromkeys(("sampled", *FATES), 0)
        self.counted += [report.counts() for report in self.reports[len(self.counted) :]]  # asked after each round
        ahead = [] if self.unused is None else [self.unused.counts()]
        for counts in self.counted + ahead:
            for key, value in counts.items():
                totals[key] += value
        return totals

    def ages(self) -> dict[int, int]:
        """Return how many rollouts of the rounds that were trained were of each age (`TrainReport.age`)."""
        totals = Counter(age for report in self.reports for age in [report.age] * len(report.fates))
        return dict(sorted(totals.items()))

    @property
    def _sampled(self) -> list[TrainReport]:
        """The reports of all rounds that were sampled."""
        return self.reports + ([] if self.unused is None else [self.unused])

    def tokens(self) -> int:
        """Return how many tokens all rounds have sampled."""
        return int(sum(report.metrics.get(TOKENS, 0.0) for report in self._sampled))

    def judging(self) -> Judging | None:
        """Return what judges were asked for the rewards of all rounds; `None` if none was."""
        return add_judging(judging_in(report.metrics) for report in self._sampled)

    def resampling(self) -> dict[str, int]:
        """Return what groups without variance have cost in all rounds; empty if none was to be replaced."""
        totals = Counter[str]()
        for report in self._sampled:
            totals.update({name: int(count) for name, count in report.metrics.items() if name.startswith(RESAMPLING)})
        counts = {name.removeprefix(RESAMPLING): count for name, count in totals.items()}
        return {name: count for name, count in counts.items() if name != "gen_batches"}

    def flops(self) -> float:
        """Return the FLOPs of all rounds: sampling, training and validation."""
        kinds = (ROLLOUT_FLOPS, TRAIN_FLOPS)
        return sum(self.validations) + sum(report.metrics.get(kind, 0.0) for report in self._sampled for kind in kinds)

    def validation_flops(self) -> float:
        """Return the most FLOPs that a validation took."""
        return max(self.validations, default=0.0)

    def attempt_tokens(self) -> float | None:
        """Return the mean length of the attempts of the first round in tokens; `None` if all failed before any."""
        return self.reports[0].metrics.get("completions/mean_length") if self.reports else None

    def seconds(self) -> dict[str, float]:
        """Return the wall seconds of `rollout`, `score` and `train`, over all rounds."""
        return seconds_of(self._sampled)


def seconds_of(reports: Sequence[TrainReport]) -> dict[str, float]:
    """Return the wall seconds of `rollout`, `score` and `train`, over these rounds."""
    kinds = ("rollout", "score", "train")
    return {kind: sum(report.metrics.get(f"perf/{kind}_seconds", 0.0) for report in reports) for kind in kinds}


logger = logging.getLogger(__name__)

_COSTS = (TOKENS, "perf/", "judge/")

Watch = Callable[[Rounds, Scored], str]
"""Looks at the rounds so far, of which the last was trained on these attempts; returns why training is to end."""


def run_rounds(
    stages: Stages,
    tasks: Artifact,
    start: Artifact,
    tracker: Tracker,
    account: Account,
    keep: Callable[[Rounds], None] = lambda rounds: None,
    *,
    watch: Watch = lambda rounds, scored: "",
    numbers: range | None = None,
    reference: Artifact | None = None,
    shown: str = "training",
) -> Rounds:
    """Train from `start`, the reference policy too if there is no other. `keep` gets what the rounds came to.

    `numbers` are those of the rounds that are done: all by default, while a replay's begin later. `shown` names them.
    With `training.lag` 1 the next round is sampled while one is trained; when training ends it is left as `unused`.

    Ends after the last round, before one that would pass the budget of the `account`, at a plateau of validation
    (`evaluation.patience`), where `watch` says why, or at a round that was undone. The last policy is validated.
    """
    config, validated = stages.config, partial(validate_round, stages, tasks, tracker, account)
    policy, draws, retention = start, Draws(stages, tasks), Retention(config.policy.keep)
    numbers, reference = numbers or range(config.training.rounds), start if reference is None else reference
    rounds = _begin(start, validate(stages, tasks, start, numbers.start, tracker, account), numbers.start)
    ahead: Scored | None = None  # the next round, if it was sampled already
    for number in _numbers(numbers, stages.show, shown, rounds):
        started, last = time.perf_counter(), number + 1 == numbers.stop
        scored = ahead or draws.sample(policy, number)
        keep(rounds)  # what was sampled is listed, should the run be killed while it trains
        enough = account.reason_to_end(more=2) if config.training.lag and not last else ""
        goes_on = bool(config.training.lag) and not last and not enough
        policy, report, ahead = _train(stages, draws, policy, reference, scored, number, ahead=goes_on)
        rounds.reports.append(report)
        rounds.is_stored = _record(tracker, account, report, time.perf_counter() - started, _worked(report, ahead))
        trace_attempts(tracker, scored, number, tasks, config)
        rounds.stopped = _why_to_end(report, number, "" if last else enough or _spent(account, ahead))
        last = last or bool(rounds.stopped)
        validates = last or (number + 1) % config.evaluation.validate_every == 0
        if validates:
            keep(rounds)  # and again below: a validation can take long
            validated(rounds, policy, number + 1)
        seen = watch(rounds, scored) or (rounds.plateau(config) if validates else "")
        if seen and not last:
            rounds.stopped, last = seen, True
            logger.info("training ends after round %d. %s", number, seen)
            if not validates:
                validated(rounds, policy, number + 1)
        retention.keep(policy, number + 1, best=rounds.best_round)
        keep(rounds)
        if last:
            break
    if ahead is not None:
        rounds.unused = _report_unused(stages, tracker, ahead, numbers.start + len(rounds.reports))
    return rounds


def _begin(start: Artifact, before: Evaluation, number: int) -> Rounds:
    """Begin with the validation of the policy that training starts from.

    It is for the curve, and to see when answers collapse: only trained policies can be the best one.
    """
    rounds = Rounds(best=start)
    rounds.start_report = rounds.validated[number] = before.splits["validation"]
    rounds.note_cost(before)
    return rounds


def _train(
    stages: Stages, draws: Draws, policy: Artifact, reference: Artifact, scored: Scored, number: int, *, ahead: bool
) -> tuple[Artifact, TrainReport, Scored | None]:
    """Train a round, and sample the next one meanwhile if `ahead`; returns policy, report and what was sampled."""
    if ahead:
        sample = partial(draws.sample, policy, number + 1, age=1)
        trained, report, sampled = stages.train_beside(policy, reference, scored, number, sample)
        return trained, report.load(), sampled
    trained, report = stages.train(policy, reference, scored, number)
    return trained, report.load(), None


def _record(tracker: Tracker, account: Account, report: TrainReport, seconds: float, worked: float) -> bool:
    """Log a round that has taken so many wall seconds, of which those `worked` are its own, and count them.

    Returns whether it was done earlier: its work took longer than the whole round does now.
    """
    # Negative for a round from the cache: what it has spent are the seconds of the run that did the work.
    metrics = {**report.metrics, **_ledger(report), "perf/orchestration_seconds": seconds - worked}
    tracker.log_metrics(metrics, step=report.round + 1)  # step 0 is before training
    account.add_round(report, seconds, worked)
    return seconds < worked


def _spent(account: Account, ahead: Scored | None) -> str:
    """Return why there is no room for one more round, which may be sampled already; empty if there is."""
    if ahead is None or account.budget.tokens is None:
        return account.reason_to_end()
    return account.reason_to_end(ahead=float(sampled_tokens(ahead.rollouts.load())))


def _why_to_end(report: TrainReport, number: int, spent: str) -> str:
    """Return why training ends with a round: it was undone, or the budget is `spent`; empty if it goes on."""
    if report.stopped:
        stopped = f"round {number}: {report.stopped}"
        logger.warning("training ends in %s; the policy before that round is the last one", stopped)
        return stopped
    if spent:
        logger.info("training ends after round %d. %s", number, spent)
    return spent


def _worked(report: TrainReport, ahead: Scored | None) -> float:
    """Return the wall seconds of the work in a round: its own sampling if that was not done ahead, then the update and,
    at the same time, the sampling of the next round, if it was done."""
    seconds = seconds_of([report])
    own = 0.0 if report.age else seconds["rollout"] + seconds["score"]
    beside = 0.0 if ahead is None else ahead.rollouts.load().seconds + ahead.rewards.load().seconds
    return own + max(seconds["train"], beside)


def _report_unused(stages: Stages, tracker: Tracker, ahead: Scored, number: int) -> TrainReport:
    """Report a round that nobody trained on, and log what it has cost: its rewards are no part of training's curves."""
    report: TrainReport = stages.report_unused(ahead, number).load()
    spent = {name: value for name, value in report.metrics.items() if name.startswith(_COSTS)}
    tracker.log_metrics({**spent, **_ledger(report)}, step=number + 1)
    return report


def _ledger(report: TrainReport) -> dict[str, float]:
    counts = {f"ledger/{key}": float(value) for key, value in report.counts().items()}
    return {**counts, "ledger/age": float(report.age)}


def _numbers(numbers: range, show: Show, name: str, rounds: Rounds) -> Iterator[int]:
    """Yield the numbers of rounds, within a stage of this name that shows how many are done.

    The pace is that of rounds that are done now: after one that was stored another part of the stage begins.
    """
    with show(name) as progress:
        for done, number in enumerate(numbers):
            if rounds.is_stored:
                progress(done, len(numbers), "stored rounds")
            progress(done, len(numbers), "rounds")
            yield number


@dataclass
class Draws:
    """Samples one round after the other; `rates` are those after the last one, where tasks are drawn by them."""

    stages: Stages
    tasks: Artifact
    rates: Artifact | None = None

    def sample(self, policy: Artifact, number: int, age: int = 0) -> Scored:
        """Sample and score a round; the next one is drawn by what has come of it.

        `age` is how many rounds of training the policy will be behind the one that is trained on them; attempts that
        are stored know it themselves.
        """
        stages = self.stages
        if stages.draws:
            draw = stages.draw(self.tasks, number, self.rates)
            scored = stages.sample_draw(policy, self.tasks, draw, number)
            if stages.config.training.curriculum == "pass_rate":
                self.rates = stages.note_rates(self.rates, scored, number)
        else:
            scored = stages.sample_round(policy, self.tasks, number)
        return replace(scored, age=age or scored.age)


def validate_round(
    stages: Stages, tasks: Artifact, tracker: Tracker, account: Account, rounds: Rounds, policy: Artifact, number: int
) -> None:
    """Evaluate a policy that was trained for `number` rounds, which may be the best so far."""
    evaluation = validate(stages, tasks, policy, number, tracker, account)
    rounds.note_validation(policy, number, evaluation, stages.config.chosen_by)
    assert rounds.start_report is not None
    report = evaluation.splits["validation"]
    if collapsed := collapse(report, rounds.start_report):
        said = named(report.frequent)
        logger.warning("validation after round %d: %s; most often it says %s", number, collapsed, said)


def validate(
    stages: Stages, tasks: Artifact, policy: Artifact, number: int, tracker: Tracker, account: Account
) -> Evaluation:
    """Evaluate a policy on `validation` after `number` rounds, and log its metrics."""
    started = time.perf_counter()
    evaluation: Evaluation = stages.evaluate(policy, tasks, ["validation"], validation_name(number)).load()
    report = evaluation.splits["validation"]
    metric = stages.config.evaluation.metric
    read = {f"eval/validation/{name}": value for name, value in evaluation.read.items()}
    tracker.log_metrics(curve_points(report, metric) | read, step=number)
    if metric in report.metrics:
        logger.info("validation after round %d: %s %.3f", number, metric, report.metrics[metric].mean)
    else:
        logger.warning(
            "validation after round %d: all %d rollouts failed, so it does not count", number, report.errored
        )
    account.add_validation(time.perf_counter() - started)
    return evaluation


def trace_attempts(tracker: Tracker, scored: Scored, number: int, tasks: Artifact, config: Config) -> None:
    """Store attempts of a round as traces, if it is one that is traced. Nothing is read while MLflow is away."""
    every, count = config.tracking.trace_every, config.tracking.trace_rollouts
    if not every or number % every or tracker.is_away or tracker.run_id is None or tracker.experiment_id is None:
        return
    rollouts, rewards, tasks_by_id = scored.rollouts.load(), scored.rewards.load(), tasks.load().by_id()
    where = (tracker.tracking_uri, tracker.experiment_id, tracker.run_id)
    chosen, tags = choose_rollouts(rollouts, rewards, count), {ROUND_TAG: str(number)}
    stored = log_rollouts(*where, chosen, rewards, tasks_by_id, tags)
    tracker.log_metrics({"traces/stored": float(stored)}, step=number + 1)
