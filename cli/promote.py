"""`rlft promote`: decide once more whether the policy of a run becomes the champion."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.guard import guarded
from cli.options import Overrides, ResultAsJson, Stack, Summary, Verbose
from cli.result import run_to_end
from cli.resume import find_and_hold
from mlops.home.folder import find_home
from mlops.home.processes import resume_command
from mlops.summary.file import SUMMARY_FILE, read_summary, write_summary
from mlops.summary.summary import NOT_PROMOTED, NOT_REGISTERED, Promotion
from mlops.summary.summary import Summary as RunSummary
from rlft.errors import StorageError
from rlft.reporting.terminal import console, errors, styled

if TYPE_CHECKING:
    from pipelines.promotion_plan import Plan


def promote(
    run: Annotated[str, typer.Argument(help="Id or name of a run that has come to its end.")],
    overrides: Overrides = None,
    as_json: ResultAsJson = False,
    stack: Stack = None,
    summary: Summary = None,
    verbose: Verbose = False,
) -> None:
    """Decide once more whether the best policy of a run becomes the champion, and register it.

    It is compared with the champion of now, by rules that --set may change (promotion.* alone). What was evaluated
    before is not evaluated again. The exit code is 0 if it is the champion then, or waits for approval, 7 if it is not
    promoted, and 5 if MLflow does not answer.
    """
    with guarded(verbose, summary) as begun, ExitStack() as held:
        home = find_home()
        asked, name, tracking_uri = find_and_hold(home, run, stack, held)
        from mlops.runs.finding import folder_of
        from mlops.runs.resuming import damages_of
        from pipelines.promotion_plan import plan_promotion
        from pipelines.train import train

        plan = plan_promotion(home, asked, overrides or [], tracking_uri if stack else None)
        if plan.champion is not None:
            _tell(name, _is_champion(plan), as_json=as_json)
            raise typer.Exit
        errors.print(f"{name} is over: what it has stored is read, and nothing is trained again", soft_wrap=True)
        begun.folder, begun.resume = folder_of(home, asked), resume_command(name, stack)
        pipeline = train.with_options(run_name=plan.again.name, **plan.again.options)
        for step, damage in damages_of(home, plan.attempt).items():
            if step in plan.kept:
                raise damage
        replay = partial(
            pipeline.replay, pipeline_run=plan.attempt.id, skip=plan.kept, input_overrides=plan.again.inputs
        )
        run_to_end(replay, begun)
        _finish(begun.folder, summary, as_json=as_json)


def _is_champion(plan: Plan) -> Promotion:
    name = plan.again.options["model"].name
    said = f"version {plan.champion} has the weights of this run's best policy and is the champion already"
    return Promotion(promoted=True, name=name, version=plan.champion, alias="champion", reasons=[said])


def _finish(folder: Path, target: Path | None, *, as_json: bool) -> None:
    """Tell what was decided, and raise typer.Exit with the exit code. Raises StorageError without a summary."""
    summary = read_summary(folder)
    if summary is None:
        file = folder / SUMMARY_FILE
        raise StorageError("the run's summary cannot be read", where=str(file), fix="`rlft promote` writes it anew")
    if target is not None:
        write_summary(target, summary)
    _tell(folder.name, summary.promotion, as_json=as_json, code=(code := _exit_code(summary)))
    raise typer.Exit(code)


def _exit_code(summary: RunSummary) -> int:
    """Return what the command ends with; a run whose attempt has failed otherwise ends as `rlft resume` does."""
    if (code := summary.exit_code) != 0:
        return code
    promotion = summary.promotion
    return 0 if promotion.promoted or promotion.approval == "pending" else NOT_PROMOTED


def _tell(name: str, promotion: Promotion, *, as_json: bool, code: int = 0) -> None:
    """Print a decision: as JSON, or each of its sentences and what became of it."""
    if as_json:
        said: dict[str, Any] = {"run": name, **promotion.model_dump(), "exit_code": code}
        console.write_json(said)
        return
    for reason in promotion.reasons:
        console.print(reason, soft_wrap=True)
    if code == NOT_REGISTERED:
        return
    where = f"version {promotion.version} of {promotion.name}"
    if promotion.promoted:
        console.print(styled(f"{where} is the champion", "green"), soft_wrap=True)
    elif promotion.approval == "pending":
        console.print(styled(f"{where} has passed, and waits for approval", "yellow"), soft_wrap=True)
    else:
        console.print(styled(f"not promoted: {where} is no champion", "yellow"), soft_wrap=True)
