"""`rlft resume`: go on with a run that was cut short."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any

import typer

from cli.guard import guarded
from cli.options import Stack, Summary, SummaryAsJson, Verbose
from cli.result import finish, run_to_end, with_weights
from cli.start import check_kept, say_start
from mlops.home.folder import Home, find_home
from mlops.home.processes import claimed, resume_command
from mlops.runs.listing import find_local
from rlft.config import Config
from rlft.errors import EnvironmentSetupError, NotReadyError, RlftError
from rlft.estimation.readiness import Check, check_cluster, check_machine, raised_by

logger = logging.getLogger(__name__)
Trainers = Annotated[
    int | None, typer.Option(min=1, help="Train the rest with so many processes (distributed.trainers).")
]


def resume(
    run: Annotated[str, typer.Argument(help="Id or name of a run that failed or was killed.")],
    trainers: Trainers = None,
    stack: Stack = None,
    summary: Summary = None,
    as_json: SummaryAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Finish a run that was cut short, without repeating finished steps.

    Results whose files are damaged are made again, those of a finished run too. The exit code is that of `rlft run`.
    """
    with guarded(verbose, summary) as begun, ExitStack() as held:
        home = find_home()
        asked, name, tracking_uri = find_and_hold(home, run, stack, held)
        from mlops.runs.finding import folder_of, resumable_attempt
        from mlops.runs.resuming import resumed, steps_of_same_code, steps_to_keep
        from pipelines.train import train

        found = resumable_attempt(home, asked, finished=True)
        settings = [f"distributed.{each}" for each in ("engine=ray", f"trainers={trainers}")] if trainers else []
        again = resumed(found, tracking_uri if stack else None, settings)
        begun.folder, begun.resume = folder_of(home, asked), resume_command(name, stack)
        check_place(again.config, stack)
        damaged = find_damage(home, found, again)
        done = steps_of_same_code(found, again.config, _code_now(again.config, stack))
        done &= steps_to_keep(found, damaged)
        kept = {"pipeline_run": found.id, "skip": done, "input_overrides": again.inputs}
        pipeline = train.with_options(run_name=again.name, **again.options)
        replay = partial(pipeline.replay, **kept)
        goes_on = partial(with_weights, replay, pipeline, again.inputs, again.name)
        finish(begun.folder, run_to_end(goes_on, begun), summary, stack, as_json=as_json)


def check_place(config: Config, stack: str | None) -> None:
    """Raise RlftError for what the rest of the run needs, and this machine or the pods of the stack will not have."""
    if stack is None:
        checks: list[Check] = [lambda: check_machine(config), lambda: check_cluster(config, find_home().root)]
        if problems := raised_by(checks):
            raise NotReadyError(problems)
        return
    from mlops.stacks.image import check_image

    check_image(config)


def find_damage(home: Home, run: Any, again: Any) -> set[str]:
    """Return the steps of an attempt whose results are damaged, and say so.

    Raises RlftError for a run that has finished and is whole.
    """
    from mlops.runs.resuming import damages_of, lost_registration
    from mlops.tracking.address import answering, tracking_address

    found = damages_of(home, run)
    for step, damage in found.items():
        logger.warning("%s: %s; %s makes it again", damage.where, damage.what, step)
    if run.status.value != "completed":
        return set(found)
    address = tracking_address(again.inputs["tracking_uri"])
    with answering(address):
        lost = lost_registration(run, address, again.config.registry_name)
    if found or lost:
        return set(found) | lost
    fix = "nothing is left to do; `rlft run` starts a new one"
    raise RlftError(f"{run.name} has finished", where="RUN", fix=fix)


def find_and_hold(home: Home, run: str, stack: str | None, held: ExitStack) -> tuple[Any, str, str]:
    """Return a run in ZenML, its name and where MLflow is, and hold the name. Raises RlftError if it is not there."""
    check_kept(home)
    held_name = claim_early(home, run, stack, held)
    say_start(held_name or run)
    from mlops.stacks.stack import connect

    tracking_uri = connect(home, stack)
    from mlops.runs.finding import find_run, folder_of, name_of

    asked = find_run(run)
    if held_name != (name := name_of(asked)):
        held.enter_context(claimed(folder_of(home, asked)))
    return asked, name, tracking_uri


def claim_early(home: Home, asked: str, stack: str | None, held: ExitStack) -> str | None:
    """Hold the name of a run of this home before the imports that take seconds, in which `rlft prune` could remove it.

    Returns the name; `None` if the run is on a stack. Raises RlftError if the home has no such run, or several.
    """
    if stack is not None:
        return None
    found = find_local(home, asked)
    held.enter_context(claimed(found.folder))
    return found.name


def _code_now(config: Config, stack: str | None) -> dict[str, str]:
    """Return the fingerprints of a run's code; none where that runs elsewhere and does not load here."""
    from mlops.runs.runtime import code_of_run

    try:
        return code_of_run(config)
    except EnvironmentSetupError as cause:
        if stack is None:
            raise
        logger.warning("whether the code of the run has changed is not known here: %s", cause.what)
        return {}
