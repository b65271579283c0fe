"""Observes a run: is given what its steps return, logs that to MLflow, and fills the summary.

It is given what comes from the cache or was done by an earlier attempt, too, so that MLflow has whole curves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from mlops.home.folder import find_home
from mlops.registry.gates import HASHES, noted_tasks
from mlops.runs.finding import note_artifacts
from mlops.runs.results import make_history
from mlops.runs.store import RunStore
from mlops.summary.arms import arm_metrics, cost_of, difference, part_differences, several_attempts, status_of
from mlops.summary.file import keep_summary
from mlops.summary.summary import AlarmSection, Baseline, DynamicSampling, JudgeCost, Ledger, Summary
from mlops.tracking.run import Tracker, log_warm_start
from pipelines.arms import Arms
from pipelines.gate import say_what_it_sees
from pipelines.rounds import Rounds
from rlft.config import Config
from rlft.estimation.machine import peak_memory
from rlft.evaluation.diagnosis.monitors import diagnose
from rlft.evaluation.evaluate import advice, baseline_verdict, report_numbers
from rlft.evaluation.searches.constant import ConstantAnswer
from rlft.evaluation.statistics import compare_pass_at_k
from rlft.evaluation.variety import collapse
from rlft.rewards.audit.report import AuditReport
from rlft.training.imitation import SftReport
from rlft.types import Evaluation, Interval, Judging, TaskSet, add_judging

logger = logging.getLogger(__name__)
_UNSCORED = "none of its attempts on `test` has a score; `rlft run --no-cache` makes them again"


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is known of an attempt at a run when it begins.

    `name` is that of the run, `folder` its own, `resume` the command that goes on with it, and `code` says what runs
    (`mlops.runs.identity`). A run `is_shared` on a stack, where others may go on with it.
    """

    name: str
    folder: Path = Path()
    number: int = 1
    resume: str = "rlft resume"
    tags: dict[str, str] = field(default_factory=dict)
    code: dict[str, Any] = field(default_factory=dict)
    is_shared: bool = False
    began: float = field(default_factory=time.perf_counter)


@dataclass
class Observer:
    """Writes the MLflow run and the summary of an attempt at a run.

    `gpus` are how many GPUs the run uses: those of this machine, or those of a cluster that it is a part of. `audit` is
    the report of the reward audit, and `page` the page about the run, as the artifact of the step that has made it,
    once there is one.
    """

    config: Config
    tracker: Tracker
    summary: Summary
    attempt: Attempt
    gpus: int = field(default_factory=torch.cuda.device_count)
    audit: dict[str, Any] | None = None
    page: Any = None
    trained: Interval | None = None  # the trained policy's mean on `test` in the metric of the run
    tokens: int = 0  # that the rounds have sampled

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Note in the summary the wall seconds of a stage that does not fail."""
        started = time.perf_counter()
        yield
        setattr(self.summary.seconds, stage, time.perf_counter() - started)

    def keep(self) -> None:
        """Write down where the run's artifacts lie, outside of ZenML's database."""
        assert self.summary.pipeline_run_id is not None
        if not self.attempt.is_shared:
            note_artifacts(RunStore(find_home()), self.attempt.name, self.summary.pipeline_run_id)

    def measure(self) -> None:
        """Note in the summary how long this attempt has taken up to now, and how much memory."""
        self.summary.seconds.total = time.perf_counter() - self.attempt.began
        held = peak_memory()
        self.summary.memory_megabytes = round(held.process / 1e6, 1)
        self.summary.gpu_memory_megabytes = None if held.gpu is None else round(held.gpu / 1e6, 1)

    def judging(self, stage: str, judging: Judging | None) -> None:
        """Note in the summary what judges were asked in a stage, if any was."""
        if judging is not None:
            self.summary.judges = {**self.summary.judges, stage: JudgeCost(**asdict(judging))}

    def tasks(self, task_set: TaskSet) -> None:
        """Note what was found while the data was read, and say what the gate can and cannot see."""
        self.tracker.log_json("task_notes.json", task_set.notes)
        self.tracker.log_json(HASHES, noted_tasks(task_set))
        self.summary.gate = say_what_it_sees(task_set.split("gate"), self.config, self.tracker)

    def audited(self, report: AuditReport) -> None:
        """Note what the audit of the reward has found."""
        self.audit = report.to_json()
        self.judging("audit", report.judging)
        self.tracker.log_json("reward_audit.json", self.audit)
        self.tracker.log_text("reward_audit.txt", report.text())

    def warm_started(self, report: SftReport) -> None:
        """Log the curves of the warm start."""
        self.summary.seconds.warm_start = report.seconds
        log_warm_start(self.tracker, report)

    def baseline(self, measured: Evaluation) -> bool:
        """Note what the policy can before the rounds; returns whether training can help.

        If the tasks are too hard or solved already, that is the status, with advice.
        """
        report = measured.splits["validation"]
        self.judging("baseline", measured.judging)
        self.tracker.log_json("evaluations/baseline.json", {"validation": report_numbers(report)})
        verdict = baseline_verdict(report, self.config.baseline.already_solved)
        text = advice(verdict, report)
        self.summary.baseline = Baseline(
            verdict=verdict,
            advice=text,
            frac_tasks_with_variance=report.frac_tasks_with_variance,
            **{name: interval.mean for name, interval in report.metrics.items()},
        )
        if verdict != "trainable":
            self.summary.status = verdict
            self.summary.promotion.name = self.config.registry_name
            self.summary.promotion.reasons = [text]
        return verdict == "trainable"

    def compares(self, config: Config, task_set: TaskSet) -> None:
        """Note by which metric policies are compared from here on: `config` names it, which had left it open or not."""
        chosen, self.config = self.config.evaluation.metric == "auto", config
        self.tracker.set_tags({"rlft.metric": config.evaluation.metric})
        if chosen:
            self.summary.gate = say_what_it_sees(task_set.split("gate"), config, self.tracker)

    def rounds_so_far(self, rounds: Rounds) -> None:
        """Write down what the rounds have come to, for whoever finds the run cut short, and do what `keep` does.

        A resume that goes through what is done keeps what was known of it.
        """
        if len(rounds.reports) >= self.summary.rounds:
            self.rounds(rounds)
        try:
            keep_summary(self.attempt.folder, self.summary.model_copy(update={"status": "running"}))
        except OSError as cause:  # a disk that takes nothing is told of by whatever needs it more
            logger.debug("the summary could not be written: %s", cause)
        self.keep()

    def rounds(self, rounds: Rounds) -> None:
        """Note what the rounds have come to."""
        ages = {str(age): count for age, count in rounds.ages().items()}
        self.summary.ledger = Ledger(**rounds.counts(), ages=ages)
        if resampling := rounds.resampling():
            self.summary.dynamic_sampling = DynamicSampling(**resampling)
        self.summary.rounds = len(rounds.reports)
        self.summary.best_round = rounds.best_round
        self.summary.stopped = rounds.stopped
        self.summary.alarms = [AlarmSection(**asdict(alarm)) for alarm in rounds.alarms.values()]
        self.tokens = rounds.tokens()
        self.judging("rounds", rounds.judging())
        self.judging("validation", add_judging(rounds.validations_judging))
        for kind, spent in rounds.seconds().items():
            setattr(self.summary.seconds, kind, spent)

    def arms(self, arms: Arms, rounds: Rounds) -> None:
        """Log the metrics of all arms, and note them, their differences and the run's status."""
        summary, metric = self.summary, self.config.evaluation.metric
        loaded, controls = arms.load(), arms.load_controls()
        for name, result in loaded.items():
            setattr(summary, name, arm_metrics(result))
        for name, result in {**loaded, **{f"{name}_control": result for name, result in controls.items()}}.items():
            flat = {split: report_numbers(report) for split, report in result.splits.items()}
            self.tracker.log_json(f"evaluations/{name}.json", flat)
        compared = [*loaded.values(), *(each for name, each in controls.items() if name != "constant")]
        self.judging("evaluation", add_judging(each.judging for each in compared))
        self.judging("controls", add_judging(each.judging for each in arms.reports.values()))
        self.judging("constant_answer", arms.constant.load().judging)
        trained, base = loaded["final"], loaded["base"]
        start = loaded.get("warm_start", base)
        self.trained = trained.splits["test"].metrics.get(metric)
        summary.difference_base = difference(trained, base, metric)
        summary.difference = difference(trained, start, metric)
        summary.differences = part_differences(trained, start)
        summary.collapsed = collapse(trained.splits["test"], start.splits["test"])
        self._controls(arms, controls, trained, rounds)
        summary.status = status_of(summary.difference)
        if summary.status == "failed":
            summary.error = (
                "no task of `test` was scored for both policies, so that nothing is known about the trained one; the "
                "errors of its rollouts (`rlft show`) name the cause"
            )

    def _controls(self, arms: Arms, controls: dict[str, Evaluation], trained: Evaluation, rounds: Rounds) -> None:
        summary, metric = self.summary, self.config.evaluation.metric
        summary.controls = {name: arm_metrics(result) for name, result in controls.items()}
        summary.difference_controls = {name: difference(trained, result, metric) for name, result in controls.items()}
        length = rounds.attempt_tokens()
        summary.control_costs = {name: cost_of(report, length) for name, report in arms.reports.items()}
        unscored = [name for name, change in summary.difference_controls.items() if change is None]
        summary.controls_left_out = {**arms.left_out, **dict.fromkeys(unscored, _UNSCORED)}
        named = self.config.other_model
        summary.control_model = named.model if named else ""
        if isinstance(constant := controls.get("constant"), ConstantAnswer):
            summary.constant_answer = None if constant.texts else constant.text
            summary.constant_answers = constant.texts
            self.tracker.log_json("constant_answers.json", constant.tried)

    def diagnosed(self, rounds: Rounds, train_tasks: int) -> None:
        """Note why the reward of a run that did not improve has not risen."""
        if self.summary.status != "improved":
            history = make_history(self.config, rounds.reports, rounds.validated, train_tasks)
            self.summary.diagnosis = [finding.text for finding in diagnose(history)]

    def several_attempts(self, start: Evaluation, trained: Evaluation) -> None:
        """Compare pass@k of the policies before and after training; as a curve in MLflow, k is the step."""
        self.judging("several_attempts", add_judging(each.judging for each in (start, trained)))
        compared = compare_pass_at_k(start.splits["test"], trained.splits["test"])
        self.summary.pass_at_k = found = several_attempts(compared)
        if found is None:
            logger.warning("pass@k is not known: all attempts of one of the policies failed")
            return
        self.tracker.log_json("pass_at_k.json", found.model_dump())
        for k, (of_start, of_trained) in enumerate(zip(found.start, found.trained, strict=True), start=1):
            curves = {"eval/start/test/pass_at_1_to_n": of_start, "eval/trained/test/pass_at_1_to_n": of_trained}
            self.tracker.log_metrics(curves, step=k)
