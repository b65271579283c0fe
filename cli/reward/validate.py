"""`rlft reward validate`: a written reward checked, and its cases run, before anything is trained on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.guard import guarded
from cli.options import ConfigPath, Overrides, ResultAsJson, Verbose
from cli.reward.opened import open_reward, specification_in, tasks_of
from rlft.config.file import load_config
from rlft.reporting.terminal import console, styled

if TYPE_CHECKING:
    from rlft.rewards.cases import CaseResult


def validate(
    config: ConfigPath,
    with_tasks: Annotated[
        bool,
        typer.Option(
            "--tasks", help="Also read the tasks: check the columns that are named, and run the cases with ids."
        ),
    ] = False,
    overrides: Overrides = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Check a written reward and run its cases, without data.

    The exit code is 2 if the specification cannot be used, a column that it names is missing, or a case does not hold,
    and 0 otherwise.
    """
    with guarded(verbose, None):
        settings = load_config(config, overrides)
        specification = specification_in(settings)
        from rlft.rewards.cases import run_cases
        from rlft.rewards.specification.scoring import check_columns

        tasks, reward = tasks_of(settings) if with_tasks else (), settings.reward
        check_columns(specification, tasks)
        results = run_cases(open_reward(settings), tasks, reward.weights, timeout_seconds=reward.timeout_seconds)
        failed = [each for each in results if each.failed]
        if as_json:
            cases = [_to_json(each) for each in results]
            console.write_json({"criteria": list(specification.criteria), "cases": cases, "passed": not failed})
        else:
            _show(len(specification.criteria), results, failed)
        if failed:
            raise typer.Exit(2)


def _show(criteria: int, results: list[CaseResult], failed: list[CaseResult]) -> None:
    for each in failed:
        console.print(styled(str(each), "red"))
    waiting = sum(each.problem is None for each in results)
    ran = len(results) - waiting
    usable = "1 criterion" if criteria == 1 else f"{criteria} criteria"
    held = f"{ran - len(failed)} of {ran} cases that were run hold" if ran else "no case was run"
    console.print(f"{usable} can be used, and {held}.")
    if waiting:
        name = "1 more case names a task" if waiting == 1 else f"{waiting} more cases name tasks"
        unread = "that was not read; --tasks reads all" if waiting == 1 else "that were not read; --tasks reads all"
        console.print(styled(f"{name} {unread} of the config.", "yellow"))


def _to_json(result: CaseResult) -> dict[str, Any]:
    holds = None if result.problem is None else not result.failed
    told = {"holds": holds, "problem": result.problem or None, "reason": result.case.reason}
    return {"case": result.number, "total": result.total, **told}
