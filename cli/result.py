"""Ends `rlft run` and `rlft resume`: prints the run's summary for a person, and ends with its exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table

from mlops.display.terminal import Terminal, console, styled
from mlops.home.folder import Home
from mlops.runs.controls import controls_that_do, cost_note, label_of, weak_controls
from mlops.runs.summary import NOT_REGISTERED, Difference, Metrics, SeveralAttempts, Summary
from mlops.runs.summary_file import read_summary, summary_since
from mlops.runtime.last_words import write_summary
from rlft.errors import StorageError, TrackerError

HEADLINES = {
    "improved": ("The trained model is better than what it started from.", "green"),
    "not_improved": ("The trained model is not measurably better than what it started from.", "yellow"),
    "too_hard": ("Not trained: the model solves none of these tasks, so nothing can be learnt.", "yellow"),
    "already_solved": ("Not trained: the model solves these tasks already.", "yellow"),
    "failed": ("The run failed.", "red"),
}
EFFECTS = {
    "widened": "training widened what the model can do",
    "ahead": "the trained model solves more, but more attempts of the model it started from might close the gap",
    "sharpened": "training made the first attempt better, and is not seen to widen what the model can do",
    "lost": "training lost some of what the model could do",
    "open": "what training did to either is within chance",
}
ARMS = (
    ("base", "base model"),
    ("warm_start", "warm start (SFT)"),
    ("controls", "control"),
    ("final", "trained with GRPO"),
    ("champion", "champion before this run"),
)


def run_id_of(pipeline: Callable[[], Any], home: Home, started: float) -> str:
    """Call a pipeline and return its run's id in ZenML.

    A run that could not be registered has failed for ZenML, so that it can be resumed; here it has come to its end.
    `started` is when the command began, in seconds since the epoch.
    """
    try:
        return str(pipeline().id)
    except TrackerError:
        left = summary_since(home, started)
        if left.pipeline_run_id is None:
            raise
        return left.pipeline_run_id


def finish(home: Home, run_id: str, target: Path | None, stack: str | None) -> None:
    """Print the summary of a run, write it to `target` if there is one, and raise typer.Exit with its exit code.

    Raises StorageError if the summary cannot be read.
    """
    summary = read_summary(home, run_id)
    if summary is None and stack is not None and _goes_on(run_id):  # an orchestrator that does not wait
        console.print("The run goes on. Its summary will be among the artifacts of its MLflow run:")
        console.print(f"rlft ui --stack {stack}", soft_wrap=True)
        raise typer.Exit
    if summary is None:
        file = home.summary_file(run_id)
        raise StorageError("the run's summary cannot be read", where=str(file), fix="rlft resume writes it anew")
    if target is not None and not write_summary(target, summary):
        target = None
    ui = f"rlft ui --stack {stack}" if stack else "rlft ui"
    where = [f"Summary: {target or home.summary_file(run_id)}", f"Curves, traces, models: {ui}"]
    show_summary(summary, console, where=where)
    raise typer.Exit(summary.exit_code)


def _goes_on(run_id: str) -> bool:
    from zenml.client import Client

    return not Client().get_pipeline_run(run_id).status.is_finished


def show_summary(summary: Summary, console: Terminal, *, where: list[str]) -> None:
    """Print the result: before and after with an interval, the promotion, and `where` to look next (lines of text)."""
    parts: list[RenderableType] = [
        styled(text, "yellow") for text in [*_collapsed(summary), *controls_that_do(summary)]
    ]
    parts.append(styled(*HEADLINES[summary.status]))
    if summary.error:
        parts.append(summary.error)
    if summary.baseline and summary.status in ("too_hard", "already_solved"):
        parts.append(summary.baseline.advice)
    if summary.difference:
        parts += [_sentence(summary.difference), _arms(summary, summary.difference.metric)]
        parts += [
            _against(label_of(summary, name), change, cost_note(summary, name))
            for name, change in summary.difference_controls.items()
            if change is not None
        ]
        parts += weak_controls(summary)
        parts += [f"No control {name}: {reason}." for name, reason in summary.controls_left_out.items()]
    if summary.pass_at_k:
        parts.append(_several_attempts(summary.pass_at_k))
    if len(summary.differences) > 1:  # a single part is the reward itself
        parts.append(_parts(summary.differences))
    promotion, ledger = summary.promotion, summary.ledger
    if promotion.version:
        parts.append(f"Registry: {promotion.name} version {promotion.version}, alias {promotion.alias}")
    parts += [f"  {reason}" for reason in promotion.reasons if summary.difference and promotion.version]
    if summary.exit_code == NOT_REGISTERED and promotion.reasons:
        parts.append(styled("\n".join(promotion.reasons), "yellow"))
    if ledger.errored:
        left = f"{ledger.errored} of {ledger.sampled} rollouts errored and were left out"
        parts.append(styled(left, "yellow"))
    if summary.rounds and not ledger.trained:
        none = f"none of {ledger.sampled} rollouts could be trained on, no weight changed"
        parts.append(styled(none, "yellow"))
    rounds = "1 round" if summary.rounds == 1 else f"{summary.rounds} rounds"
    parts.append(f"{rounds}, {summary.seconds.total:.0f} s")
    parts += where
    console.print(Panel(Group(*parts), title=styled(f"rlft: {summary.status}"), expand=False))


def _collapsed(summary: Summary) -> list[str]:
    """Return that the answers have collapsed to a few, and what to do if that is wanted; nothing if they have not."""
    if summary.collapsed is None:
        return []
    wanted = "If few answers are right for your tasks, look at them (`rlft show RUN final`) before you use the model."
    return [f"The trained model says little: {summary.collapsed}. {wanted}"]


def _scale(metric: str) -> tuple[float, str]:
    """Return by what a metric is multiplied to be printed, and the unit of a difference: the reward has its own."""
    return (1, "") if metric == "reward" else (100, " points")


def _sentence(change: Difference) -> str:
    """Return the difference in one sentence: accuracy in percentage points, the reward in its own unit."""
    metric, (scale, unit) = change.metric, _scale(change.metric)
    before, after = change.before * scale, change.after * scale
    low, high = change.ci_low * scale, change.ci_high * scale
    text = (
        f"{metric} on {change.tasks} unseen test tasks: {before:.3g} -> {after:.3g} "
        f"({change.mean * scale:+.3g}{unit}, 95 % interval {low:+.3g} to {high:+.3g})"
    )
    if change.errors and change.ci_low_errors is not None:
        text += (
            f"; counting {change.errors} rollouts without a score against the trained model, the lower end is "
            f"{change.ci_low_errors * scale:+.3g}"
        )
    if change.without_score:
        text += f"; {len(change.without_score)} tasks have no score for either and are left out"
    if change.declared is False:
        text += "; the range of this score is not known, so rare large losses that did not occur may be missing"
    return text


def _against(label: str, change: Difference, note: str) -> str:
    """Return the trained model minus a control in one line, with a note on what the control took."""
    interval = f"{change.mean:+.3f}, 95 % interval {change.ci_low:+.3f} to {change.ci_high:+.3f}"
    return f"GRPO minus {label}: {interval}" + (f" ({note})" if note else "")


def _several_attempts(curves: SeveralAttempts) -> str:
    """Return in one sentence what both models solve in one and in n attempts, and what training did."""
    n, change = len(curves.start), curves.difference_at_n
    text = (
        f"One attempt at {curves.tasks} test tasks solves {curves.start[0]:.1%} -> {curves.trained[0]:.1%}, and at "
        f"least one of {n} does {curves.start[-1]:.1%} -> {curves.trained[-1]:.1%} ({100 * change.mean:+.3g} points, "
        f"95 % interval {100 * change.ci_low:+.3g} to {100 * change.ci_high:+.3g}): {EFFECTS[curves.effect]}"
    )
    return f"{text}; {curves.errors} attempts have no score and count as unsolved" if curves.errors else text


def _arms(summary: Summary, metric: str) -> Table:
    arms: dict[str, Metrics] = {}
    for key, label in ARMS:
        if key == "controls":
            controls = summary.controls or {"sft": summary.sft_control}  # of an older version
            arms |= {label_of(summary, name): metrics for name, metrics in controls.items()}
        else:
            arms[label] = getattr(summary, key)
    splits = {metric: "test", f"gate/{metric}": "gate", f"off_distribution/{metric}": "off distribution"}
    measured = [name for name in splits if any(name in arm for arm in arms.values())]
    table = Table("", *(splits[name] for name in measured), title=metric, title_justify="left")
    for label, arm in arms.items():
        if any(name in arm for name in measured):
            table.add_row(label, *(f"{arm[name]:.3f}" if name in arm else "" for name in measured))
    return table


def _parts(differences: Mapping[str, Difference | None]) -> Table:
    """Return a table of the reward's parts and the environment's metrics before and after training."""
    table = Table(
        "on test", "before", "after", "change (95 % interval)", "tasks", title="parts and metrics", title_justify="left"
    )
    for name, change in differences.items():
        if change is not None:
            interval = f"{change.mean:+.3f} ({change.ci_low:+.3f} to {change.ci_high:+.3f})"
            before, after = f"{change.before:.3f}", f"{change.after:.3f}"
            table.add_row(name.removeprefix("rewards/"), before, after, interval, str(change.tasks))
        else:
            table.add_row(name.removeprefix("rewards/"), "-", "-", "applied to no task of both", "0")
    return table
