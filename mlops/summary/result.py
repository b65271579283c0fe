"""The result of a run as MLflow shows it first: a few metrics whose names sort before all others, and a description."""

from __future__ import annotations

import math
from collections.abc import Mapping
from shlex import quote
from urllib.parse import quote as in_address

from mlops.summary.summary import Difference, Summary
from mlops.summary.verdict import blocks
from rlft.texts.blocks import Headline, paragraph, plain
from rlft.types import Interval

PREFIX = "0_result"  # a digit sorts before all letters, so that these metrics head every list and table of MLflow
GPU_HOURS = f"{PREFIX}/used/gpu_hours"
# What a run has from its beginning, as NaN, so that it stands before all that is logged meanwhile.
NOT_YET = dict.fromkeys((f"{PREFIX}/{name}" for name in ("gain", "gain_low", "gain_high", "before", "after")), math.nan)


def result_metrics(summary: Summary, gpus: int, trained: Interval | None = None, tokens: int = 0) -> dict[str, float]:
    """Return the result with its intervals, and what the run used, as metrics under `0_result/`.

    They are means on `test` in the metric of the run: `after` is the trained model's, with the ends of `trained` if
    that is known, `before` that of the model that training started from, `gain` their difference, `over_control` the
    trained model minus the best control that is a model, and `over_constant` that minus the best constant answer;
    `_low` and `_high` are the ends of 95 % intervals, of differences with errors counted on either side, as verdicts
    rest on them. `gpus` is how many GPUs the run had, and `tokens` how many its rounds have sampled. Of a run that
    trained nothing there is only what it used.
    """
    found: dict[str, float] = {}
    if (change := summary.difference) is not None:
        found |= {"after": change.after, "before": change.before, **_ends("gain", change)}
        if trained is not None:  # over all tasks that it has a score for, also those that the start has none for
            found |= {"after": trained.mean, "after_low": trained.low, "after_high": trained.high}
        if (best := best_control(summary)) is not None:
            found |= _ends("over_control", best)
        if (constant := summary.difference_controls.get("constant")) is not None:
            found |= _ends("over_constant", constant)
        found = {name: round(value, 4) for name, value in found.items()}  # as many as a table has room for
    if summary.baseline is not None and summary.status in ("too_hard", "already_solved"):
        found["baseline/frac_tasks_with_variance"] = summary.baseline.frac_tasks_with_variance
    found["used/seconds"] = summary.seconds.total
    hours = gpus * summary.seconds.total / 3600
    found["used/rollouts"] = float(summary.ledger.sampled)
    found["used/tokens"] = float(tokens)
    if summary.judges:
        found["used/judge_calls"] = float(sum(each.calls for each in summary.judges.values()))
        found["used/judge_tokens"] = float(
            sum(each.prompt_tokens + each.completion_tokens for each in summary.judges.values())
        )
    return {f"{PREFIX}/{name}": value for name, value in found.items()} | {GPU_HOURS: hours}


def best_control(summary: Summary) -> Difference | None:
    """Return the trained model minus the best control; `None` if none but the constant answer has a score."""
    named = summary.difference_controls.items()
    scored = [change for name, change in named if change is not None and name != "constant"]
    return max(scored, key=lambda change: change.before, default=None)


def _ends(name: str, change: Difference) -> dict[str, float]:
    return {name: change.mean, f"{name}_low": change.low, f"{name}_high": change.high}


def description(summary: Summary, name: str, links: Mapping[str, str] | None = None) -> str:
    """Return what came of a run in Markdown: the sentences and tables that the terminal shows.

    `name` is that of the run, as `rlft show` takes it, and `links` maps what can be looked at next to its address. All
    texts are escaped.
    """
    # MLflow folds a description after five lines, and cautions alone may fill them, so that here the headline, which
    # names the controls that do as well, stands above them.
    told = sorted(blocks(summary), key=lambda block: not isinstance(block, Headline))
    linked = ", ".join(f"[{plain(text)}]({address})" for text, address in (links or {}).items())
    shows = f"`rlft show {quote(name)}` shows its conversations." if _has_sampled(summary) else ""
    more = " ".join(each for each in (shows, f"Look at: {linked}." if linked else "") if each)
    return "\n\n".join([*map(paragraph, told), *([more] if more else [])])


def cut_short(why: str, way_on: str) -> str:
    """Return the description of a run whose process ended before it could write one, in Markdown.

    `why` is the end of a sentence, and `way_on` says in a sentence how a person goes on, with the command in backticks.
    """
    return f"**The run was cut short: {plain(why)}.**\n\n{way_on[0].upper()}{way_on[1:]}."


def _has_sampled(summary: Summary) -> bool:
    """Return whether there are conversations; a run that failed may have sampled some without having counted them."""
    measured = summary.baseline or summary.base or summary.ledger.sampled or summary.seconds.rollout
    return bool(measured) or summary.status not in ("failed", "interrupted")


def links_of(summary: Summary, experiment_id: str | None, zenml_page: str | None = None) -> dict[str, str]:
    """Return where the report of a run, its curves, tasks and version are in MLflow's own pages, and its ZenML run."""
    if summary.mlflow_run_id is None or experiment_id is None:
        return {}
    page = f"#/experiments/{experiment_id}/runs/{summary.mlflow_run_id}"
    found = {"report": f"{page}/artifacts/report.html", "curves": f"{page}/model-metrics"}
    if _has_sampled(summary):
        found |= {"traces": f"{page}/traces", "tasks": f"{page}/artifacts/task_notes.json"}
    name, version = summary.promotion.name, summary.promotion.version
    if name is not None and version is not None:
        found[f"{name} version {version}"] = f"#/models/{in_address(name, safe='')}/versions/{version}"
    return found if zenml_page is None else {**found, "ZenML run": zenml_page}
