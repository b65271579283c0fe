"""The pipeline `train`: tasks, reward audit, policy, baseline, rounds of GRPO, evaluation, decision, registry.

`rlft/iteration.py` shows one round of it in one process.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from zenml import pipeline
from zenml.execution.pipeline.dynamic.run_context import DynamicPipelineRunContext
from zenml.models import PipelineRunResponse

from mlops.home.folder import find_home
from mlops.record.run import Record, open_record
from mlops.registry.noted_tasks import note_tasks
from mlops.runs.labels import labels_of
from mlops.runs.resuming import naming_damage
from mlops.runs.starting import registry_name
from mlops.runs.store import stored_config
from mlops.runtime.runtime import Lent, Runtime, shared_runtime, start_runtime, stop_runtime
from mlops.summary.sections import AlarmSection, Baseline, DynamicSampling, Ledger
from mlops.tracking.address import tracking_address
from mlops.tracking.sft_curves import log_training
from pipelines.arms import Starts
from pipelines.conclusion import conclude
from pipelines.gate import check_slices, say_what_it_sees, say_what_moved
from pipelines.judges import meet_judges
from pipelines.rounds import run_rounds
from pipelines.rounds_done import Rounds
from pipelines.stages import Artifact, Stages
from pipelines.watching import Watch, check_honest
from rlft.audit.by_settings import way_out
from rlft.bars import Display
from rlft.budget import Account
from rlft.config import Config
from rlft.distributed.demand import Demand, gpus_used
from rlft.errors import RewardAuditError
from rlft.evaluation import advice, baseline_verdict, compared_by, report_numbers
from rlft.policy.origin import choose_device
from rlft.sft.training import SftReport
from rlft.types import TaskSet, add_judging
from steps.ask_model import ask_model
from steps.audit_rewards import audit_rewards
from steps.choose_prompt import choose_prompt
from steps.collect_pass_rates import collect_pass_rates
from steps.decide_promotion import decide_promotion
from steps.draw_tasks import draw_tasks
from steps.evaluate_constant import evaluate_constant
from steps.evaluate_policy import evaluate_policy
from steps.fetch_champion import fetch_champion
from steps.find_contamination import find_contamination
from steps.generate_groups import generate_groups
from steps.generate_rollouts import generate_rollouts
from steps.ingest_tasks import ingest_tasks
from steps.initialize_policy import initialize_policy
from steps.leave_out_tasks import leave_out_tasks
from steps.measure_forgetting import measure_forgetting
from steps.note_pass_rates import note_pass_rates
from steps.register_policy import register_policy
from steps.report_unused import report_unused
from steps.score_rewards import score_rewards
from steps.train_grpo import train_grpo
from steps.train_rejection_control import train_rejection_control
from steps.train_sft_control import train_sft_control
from steps.warm_start_policy import warm_start_policy
from steps.write_report import write_report

# All steps that the body may call: ZenML compiles them with the pipeline, before its body runs.
STEPS = [
    ingest_tasks,
    audit_rewards,
    initialize_policy,
    ask_model,
    leave_out_tasks,
    warm_start_policy,
    train_sft_control,
    train_rejection_control,
    choose_prompt,
    collect_pass_rates,
    draw_tasks,
    generate_groups,
    note_pass_rates,
    generate_rollouts,
    score_rewards,
    evaluate_policy,
    evaluate_constant,
    find_contamination,
    measure_forgetting,
    train_grpo,
    report_unused,
    fetch_champion,
    decide_promotion,
    register_policy,
    write_report,
]


@pipeline(dynamic=True, depends_on=STEPS, on_init=start_runtime, on_cleanup=stop_runtime)
def train(config: dict[str, Any], tracking_uri: str, labels: dict[str, Any] | None = None, anew: bool = False) -> None:
    """Run one experiment from tasks to registry.

    `config` is a `rlft.config.Config` as `mlops.runs.store` stores it, `tracking_uri` an address of MLflow or
    `home`, `labels` the `mlops.runs.labels.Labels` that the run was started with. `anew` says that a run which is over
    is decided on once more (`pipelines.promotion_plan`).
    """
    settings, began = stored_config(config, "config"), time.perf_counter()
    display, runtime = Display(), shared_runtime()
    stages = Stages.of(settings, display.stage)
    address = tracking_address(tracking_uri)
    run = _current_run()
    with open_record(settings, stages.fingerprints, address, labels_of(labels)) as record, naming_damage(run):
        runtime.lent = _lend(display, record, settings)
        tasks, base, start, other = _prepare(stages, record, runtime, tracking_uri)
        record.keep()
        if (judged := _worth_training(stages, tasks, start, record)) is not None:
            started = time.perf_counter()
            account = Account(settings.budget, record.gpus, seconds=started - began)
            shown = "reading what the run has stored, nothing is trained" if anew else "training"
            watch = Watch(judged, tasks, record.tracker)
            keep = partial(_keep_rounds, record)
            rounds = run_rounds(judged, tasks, start, record.tracker, account, keep, watch=watch, shown=shown)
            record.seconds.rounds = time.perf_counter() - started
            _note_rounds(rounds, record)
            starts = Starts(base, start, other)
            conclude(judged, tasks, starts, rounds, record, tracking_uri, _current_run(), anew=anew)
        record.measure()  # for the page; what is written of the run comes after it
        with stages.show("report"):
            record.page = write_report(str(_current_run().id), record.summary.model_dump(mode="json"))


def _lend(display: Display, record: Record, settings: Config) -> Lent:
    """Return what the body lends to the steps of its process, and note the GPUs that it asks for.

    With `--no-cache` they use no earlier checkpoints.
    """
    demand = Demand.of(settings, on_gpu=choose_device(settings.policy.device).type == "cuda")
    record.gpus = gpus_used(demand, record.gpus)
    return Lent(
        progress=display.report,
        checkpoints=find_home().checkpoints,
        anew=_current_run().config.enable_cache is False,
        note_training=partial(log_training, record.tracker),
        demand=demand,
    )


def _current_run() -> PipelineRunResponse:
    context = DynamicPipelineRunContext.get()
    assert context is not None, "this is called in the body of a pipeline"
    return context.run


def _prepare(stages: Stages, record: Record, runtime: Runtime, tracking_uri: str) -> tuple[Artifact, ...]:
    """Make the tasks, the base policy, the policy that training starts from, and the other model of a control, if any.

    Raises RewardError if a judge has changed, and RewardAuditError if the audit finds that the reward would teach the
    wrong thing.
    """
    started = time.perf_counter()
    tasks = stages.ingest(tracking_uri)
    check_slices(tasks.load().split("gate"), stages.config)
    meet_judges(stages.config, stages.show, record.note_canaries)
    moved = say_what_moved(tasks.load(), stages.config, record.tracker)
    _note_tasks(tasks.load(), moved, record, stages.config)
    if stages.config.reward.audit:
        audit = stages.audit(tasks).load()
        record.audit = audit.to_json()
        record.note_judging("audit", audit.judging)
        record.tracker.log_json("reward_audit.json", record.audit)
        record.tracker.log_text("reward_audit.txt", audit.text())
        if not audit.passed:
            raise RewardAuditError(
                "the reward pays wrong answers:\n" + audit.text(),
                where=stages.config.environment_name,
                fix=f"{way_out(stages.config)}, or set reward.audit: false",
            )
    other = stages.initialize_other(tasks)
    base, prompts = stages.initialize(tasks)
    if prompts.load().left_out:
        tasks = stages.leave_out(tasks, prompts)
        _note_tasks(tasks.load(), moved, record, stages.config)
    record.tracker.log_tasks(tasks.load(), tasks.load().notes["tasks"]["source"])
    start = base
    record.seconds.setup = time.perf_counter() - started
    if stages.config.warm_start is not None:
        start, report = stages.supervise(base, tasks)
        record.seconds.warm_start = report.load().seconds
        _note_training(record, runtime, "warm_start", report.load())
    return tasks, base, start, other


def _note_training(record: Record, runtime: Runtime, stage: str, report: SftReport) -> None:
    """Log the curves of supervised training."""
    log_training(record.tracker, stage, report)
    runtime.forget_checkpoints()  # only now: ZenML has stored the result, so no kill can lose both


def _note_tasks(task_set: TaskSet, moved: dict[str, Any] | None, record: Record, config: Config) -> None:
    """Store what was noted while reading the data, and say what the gate can and cannot see."""
    record.tracker.log_json("task_notes.json", task_set.notes | ({"moved": moved} if moved else {}))
    note_tasks(record.tracker, task_set)
    record.summary.gate = say_what_it_sees(task_set.split("gate"), config, record.tracker)


def _worth_training(stages: Stages, tasks: Artifact, start: Artifact, record: Record) -> Stages | None:
    """Return the stages with the metric that models are compared by; `None` if a baseline shows that training is vain.

    If the tasks are too hard or solved already, the summary gets that as its status, with advice.
    """
    measured = stages.baseline(start, tasks).load()
    record.note_judging("baseline", measured.judging)
    report = measured.splits["validation"]
    check_honest(report, stages.config)
    record.tracker.log_json("evaluations/baseline.json", {"validation": report_numbers(report)})
    verdict = baseline_verdict(report, stages.config.baseline.already_solved)
    text = advice(verdict, report)
    record.summary.baseline = Baseline(
        verdict=verdict,
        advice=text,
        frac_tasks_with_variance=report.frac_tasks_with_variance,
        **{name: interval.mean for name, interval in report.metrics.items()},
    )
    if verdict == "trainable":
        config = stages.config.comparing(compared_by(stages.config.evaluation.metric, report))
        record.tracker.set_tags({"rlft.metric": config.evaluation.metric})
        if stages.config.evaluation.metric == "auto":
            record.summary.gate = say_what_it_sees(tasks.load().split("gate"), config, record.tracker)
        return replace(stages, config=config)
    record.summary.status = verdict
    record.summary.promotion.name = registry_name(stages.config)
    record.summary.promotion.reasons = [text]
    return None


def _keep_rounds(record: Record, rounds: Rounds) -> None:
    """Keep what the rounds have come to; a resume that goes through what is done keeps what was known of it."""
    if len(rounds.reports) >= record.summary.rounds:
        _note_rounds(rounds, record)
    record.keep_so_far()


def _note_rounds(rounds: Rounds, record: Record) -> None:
    record.summary.ledger = Ledger(**rounds.counts(), ages={str(age): count for age, count in rounds.ages().items()})
    if resampling := rounds.resampling():
        record.summary.dynamic_sampling = DynamicSampling(**resampling)
    record.summary.rounds = len(rounds.reports)
    record.summary.best_round = rounds.best_round
    record.summary.stopped = rounds.stopped
    record.summary.alarms = [AlarmSection(**asdict(alarm)) for alarm in rounds.alarms.values()]
    record.tokens = rounds.tokens()
    record.note_judging("rounds", rounds.judging())
    record.note_judging("validation", add_judging(rounds.validations_judging))
    for kind, spent in rounds.seconds().items():
        setattr(record.seconds, kind, spent)
