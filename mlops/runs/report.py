"""What is stored of a run for its page (`rlft.reporting.page`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from shlex import quote
from typing import Any

from mlops.ids import AUDIT, REWARDS, ROLLOUTS, TRAINED, UNUSED, round_name
from mlops.runs.results import Run, code_of_run, refuse_others, settings_of_run, stored_curves, stored_tasks
from mlops.summary.summary import Seconds, Summary
from mlops.summary.verdict import blocks
from rlft.config.yaml_text import write_yaml
from rlft.errors import RlftError
from rlft.reporting.page import Attempt, ReportFacts
from rlft.texts.secrets import hide, hide_secrets
from rlft.training.algorithms import learnt_by
from rlft.types import TaskSet, TrainReport
from rlft.types.thinking import answer_of

EXAMPLES = 10  # attempts of either end


def report_facts(run: Run, summary: Summary | None = None) -> ReportFacts:
    """Return what is known of a run; `summary` is what came of it, by default as it is stored.

    Raises RlftError if there is no summary of it.
    """
    refuse_others(run, "its page in MLflow says what came of it (`rlft ui`), and so does the file of its summary")
    if (summary := summary or run.summary()) is None:
        raise RlftError(f"{run.name} has no summary", where="RUN", fix="`rlft runs` lists the runs that have one")
    rounds, validations = stored_curves(run)
    settings, tasks = settings_of_run(run), stored_tasks(run)
    best, worst = _examples(run, tasks)
    audit = run.output(AUDIT, "")
    made_by = _code(run.code())
    return ReportFacts(
        name=run.name,
        verdict=list(blocks(summary)),
        metric=_chosen_by(settings),
        rounds=rounds,
        validations=validations,
        best_round=summary.best_round,
        ledger=_fates([*rounds, *_unused(run, len(rounds))]),
        seconds=_stages(summary.seconds),
        best=best,
        worst=worst,
        audit=audit.text().splitlines() if audit is not None else (),
        lineage=_lineage(run, summary, tasks, {**made_by, **code_of_run(run)}),
        config=write_yaml(hide_secrets(settings), width=80),
        commands=_commands(run.name, summary),
        about=_about(run, settings),
        code=", ".join(made_by.values()),
    )


def make_report(run: Run, summary: Summary | None = None) -> str:
    """Return the page of a run as HTML, with the values of secret variables hidden. Raises as `report_facts` does."""
    from rlft.reporting.page import make_page

    return hide(make_page(report_facts(run, summary)))


def _chosen_by(settings: Mapping[str, Any]) -> str:
    """Return the metric of validation by which the best round was chosen (`Config.chosen_by`)."""
    honest = (settings.get("monitors") or {}).get("honest")
    return f"rewards/{honest}" if honest else (settings.get("evaluation") or {}).get("metric", "accuracy")


def _code(noted: Mapping[str, Any]) -> dict[str, str]:
    """Return the commit of rlft and the versions of packages that a run has noted, by what they are of."""
    found = {}
    if commit := (noted.get("commits") or {}).get("rlft"):
        found["commit of rlft"] = f"rlft {commit}"
    if packages := noted.get("packages"):
        found["packages"] = ", ".join(f"{name} {version}" for name, version in packages.items())
    return found


def _stages(seconds: Seconds) -> dict[str, float]:
    """Return wall seconds by stage, which add up to those of the run unless some are of another run (the cache)."""
    within = {"rollout": seconds.rollout, "score": seconds.score, "train": seconds.train}
    parts = {"setup": seconds.setup, "warm_start": seconds.warm_start, **within}
    outside = seconds.setup + seconds.warm_start + seconds.rounds + seconds.evaluate
    return {
        **parts,
        "rest of the rounds": max(0.0, seconds.rounds - sum(within.values())),
        "evaluate": seconds.evaluate,
        "rest of the run": max(0.0, seconds.total - outside),
    }


def _unused(run: Run, number: int) -> list[TrainReport]:
    """Return the report of a round that was sampled ahead when training ended, if there is one."""
    found = run.output(UNUSED, round_name(number))
    return [] if found is None else [found]


def _fates(rounds: list[TrainReport]) -> dict[str, int]:
    """Return how many attempts had each fate, the most frequent first; errors by where they came from."""
    counts = Counter(":".join(fate.split(":")[:2]) for report in rounds for fate in report.fates.values())
    return dict(counts.most_common())


def _examples(run: Run, tasks: TaskSet | None) -> tuple[list[Attempt], list[Attempt]]:
    """Return the attempts of the trained policy at `test` with the highest reward, and with the lowest, by task id."""
    rollouts, rewards = (run.output(stored, TRAINED) for stored in (ROLLOUTS, REWARDS))
    if rollouts is None or rewards is None or tasks is None:
        return [], []
    scored = {reward.rollout_id: reward for reward in rewards if reward.total is not None}
    by_id = {task.id: task for task in tasks.split("test")}
    rows = [row for row in rollouts if row.rollout_id in scored and row.task_id in by_id]
    rows.sort(key=lambda row: (-scored[row.rollout_id].total, row.rollout_id))
    made = [_attempt(row, scored[row.rollout_id], by_id[row.task_id]) for row in rows]
    half = min(EXAMPLES, (len(made) + 1) // 2)
    return made[:half], list(reversed(made[half:]))[:EXAMPLES]


def _attempt(rollout: Any, reward: Any, task: Any) -> Attempt:
    said = answer_of(rollout.messages)
    asked = str(task.prompt[-1].get("content") or "")
    right = task.answer if task.answer is None or isinstance(task.answer, str) else json.dumps(task.answer, default=str)
    return Attempt(task.id, asked, said, reward.total, dict(reward.parts), rollout.stop_reason, right)


def _about(run: Run, settings: Mapping[str, Any]) -> list[str]:
    """Return what a run is of, for somebody who has not seen it; nothing if its settings are not stored."""
    if not settings:
        return []
    policy, tasks = settings["policy"], settings["tasks"]
    model = policy.get("model") or "a small model from random weights"
    how = "an adapter (LoRA)" if policy.get("lora") else "all weights"
    # A generator makes its tasks, and has no path.
    source = " ".join(filter(None, (tasks["source"], tasks.get("path") or tasks.get("generator"))))
    return [
        f"A run of {learnt_by(settings)} on {how} of {model}, begun on {run.began:%Y-%m-%d}. "
        f"Its tasks are those of the environment {settings['environment']['name']}, from {source}."
    ]


def _lineage(run: Run, summary: Summary, tasks: TaskSet | None, code: Mapping[str, str]) -> list[tuple[str, str]]:
    promotion = summary.promotion
    found = [
        ("run in ZenML", run.id),
        ("run in MLflow", summary.mlflow_run_id or "none"),
        ("begun", f"{run.began:%Y-%m-%d %H:%M} UTC"),
        *code.items(),
    ]
    if tasks:
        source = json.dumps((tasks.notes.get("tasks") or {}).get("source", ""), ensure_ascii=False)
        found += [("fingerprint of the tasks", tasks.fingerprint), ("source of the tasks", source)]
    if promotion.version:
        found.append(("version", f"models:/{promotion.name}/{promotion.version}"))
    return found


def _commands(name: str, summary: Summary) -> list[str]:
    said = ["# the settings below, as a file", "rlft run CONFIG.yaml"]
    said += ["# curves, traces and models in MLflow", "rlft ui"]
    if summary.final:
        said += ["# every attempt of the trained model", f"rlft show {quote(name)} trained"]
    if (promotion := summary.promotion).version and promotion.name:
        said.append(f"rlft serve {quote(promotion.name)}/{promotion.version}")
    return said
