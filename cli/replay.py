"""`rlft rescore`: stored attempts under another reward. `rlft retrain`: other training on stored attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.panel import Panel

from cli.guard import Begun, guarded
from cli.options import Overrides, RunName, Stack, Summary, SummaryAsJson, Verbose
from cli.result import read_stored, run_to_end, show_ui, shown, with_weights
from cli.resume import claim_early
from cli.start import check_kept, say_start
from mlops.home.folder import Home, find_home
from mlops.ids import resumed_name
from mlops.runs.identity import users_commits
from mlops.runs.labels import Labels, make_labels, refuse_taken, run_called
from mlops.runs.store import as_parameter
from mlops.summary.replays import replay_blocks
from mlops.tracking.address import HOME
from rlft.config.file import check_variables, load_config
from rlft.errors import ConfigError
from rlft.reporting.terminal import console, styled
from rlft.texts.secrets import redact

if TYPE_CHECKING:
    from mlops.runs.replayed import Source
    from rlft.config import Config

AUDIT_FAILED = 2  # the exit code of `rlft audit`, too
_SECTION = "training."
_SAMPLED = ("training.tasks_per_round", "training.num_generations")  # what the stored attempts have settled


def rescore(
    run: Annotated[str, typer.Argument(help="Id or name of a run whose attempts are scored again.")],
    config: Annotated[Path, typer.Option(help="A YAML file with the other reward, its environment and tasks.")],
    overrides: Overrides = None,
    rounds: Annotated[
        list[int] | None,
        typer.Option("--round", min=0, help="Score this round alone. May be given several times; all without it."),
    ] = None,
    name: RunName = None,
    stack: Stack = None,
    summary: Summary = None,
    as_json: SummaryAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Score the stored attempts of a run by another reward, without sampling: whose order changes, and the parts.

    The reward audit runs, too. The exit code is 0 if it passes (or is switched off), 2 if it does not or if the set-up
    cannot work, and 1 if scoring failed.
    """
    with guarded(verbose, summary) as begun, ExitStack() as held:
        home = find_home()
        settings = load_config(config, overrides)
        if stack is None:
            check_variables(settings)
        tracking_uri = _open_home(home, run, stack, held)
        from pipelines.rescore import plan_rescoring
        from pipelines.rescore import rescore as pipeline

        plan = plan_rescoring(home, run, settings, rounds or [])
        labels = _labels("rescore", plan.source, name, users_commits(config, settings))
        _replay(begun, pipeline, plan, labels, rounds=list(plan.rounds), tracking_uri=tracking_uri)
        found = _finish(home.run_folder(labels.name, shared=stack is not None), summary, stack, as_json=as_json)
        if found["audit"] is not None and not found["audit"]["passed"]:
            raise typer.Exit(AUDIT_FAILED)


def retrain(
    run: Annotated[str, typer.Argument(help="Id or name of a run whose attempts are trained on again.")],
    from_round: Annotated[
        int, typer.Option(min=0, help="Begin with the policy before this round; rounds count from 0.")
    ],
    overrides: Overrides = None,
    name: RunName = None,
    stack: Stack = None,
    summary: Summary = None,
    as_json: SummaryAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Train again on the stored attempts of a run, with other settings of `training`, and evaluate what comes of it.

    Attempts that another policy made are weighted (importance sampling). It says which way learns more from the same
    attempts, and nothing on exploration. No version is registered. The exit code is 0 if it finished, whatever the
    model came to, 1 if it failed, and 2 if the set-up cannot work.
    """
    with guarded(verbose, summary) as begun, ExitStack() as held:
        home = find_home()
        _check_keys(overrides or [])
        tracking_uri = _open_home(home, run, stack, held)
        from pipelines.retrain import plan_retraining
        from pipelines.retrain import retrain as pipeline

        plan = plan_retraining(home, run, from_round, overrides or [])
        labels = _labels("retrain", plan.source, name, {})
        own = {"from_round": from_round, "correction": plan.correction}
        _replay(begun, pipeline, plan, labels, tracking_uri=tracking_uri, **own)
        _finish(home.run_folder(labels.name, shared=stack is not None), summary, stack, as_json=as_json)


def _check_keys(overrides: Sequence[str]) -> None:
    """Raise ConfigError for an override that would need other attempts, or that is not about training."""
    for override in overrides:
        key = override.partition("=")[0]
        if key in _SAMPLED:
            raise ConfigError(
                f"{key} says what is sampled, and the attempts are those that the run has stored",
                where="--set",
                fix="leave it out; `rlft run` samples anew",
            )
        if not key.startswith(_SECTION):
            raise ConfigError(
                f"{redact(key)} is no setting of training, and all else stays as the run has it",
                where="--set",
                fix="set such as training.loss_type=dr_grpo; `rlft rescore` tells of another reward, and `rlft run` "
                "trains with other settings",
            )


def _open_home(home: Home, run: str, stack: str | None, held: ExitStack) -> str:
    """Connect ZenML to the home or to a stack, and hold the name of the run that is replayed, so that it stays.

    Returns where MLflow is, as a pipeline is given it. Raises RlftError if the home has no such run, or if it goes on.
    """
    check_kept(home)
    claim_early(home, run, stack, held)
    say_start(f"the replay of {run}")
    from mlops.stacks.stack import connect

    tracking_uri = connect(home, stack)
    return tracking_uri if stack else HOME


def _labels(kind: str, source: Source, name: str | None, commits: dict[str, str]) -> Labels:
    """Return the labels of a replay; without a name it is called after the run that it is made from, and the time."""
    made = name or f"{source.name}-{kind}-{datetime.now():%H%M%S-%f}"
    return make_labels(source.name, name=made, tags=[], commits=commits)


def _replay(begun: Begun, pipeline: Any, plan: Any, labels: Labels, **own: Any) -> None:
    """Run the pipeline of a replay to its end; `own` are arguments beside those that the plan and the labels give."""
    arguments = {
        "config": as_parameter(plan.config),
        "source": plan.source.name,
        "labels": labels.model_dump(mode="json"),
        **own,
    }
    options = options_for(find_home(), plan.source, labels, arguments, plan.config)
    named = pipeline.with_options(**options)
    begun.repeated = True
    run_to_end(partial(with_weights, partial(named, **arguments), named, arguments, options["run_name"]), begun)


def options_for(
    home: Home, source: Source, labels: Labels, arguments: Mapping[str, Any], config: Config
) -> dict[str, Any]:
    """Return what `with_options` of a replay takes, which is given these arguments, and works by this config.

    Where a replay of the same name and arguments was cut short it is another attempt at that. Raises RlftError if there
    is another run of its name, and NotReadyError for what it needs and the pods of its stack will not have.
    """
    from mlops.runs.finding import attempts_of, find_run
    from mlops.runs.resuming import replay_options
    from mlops.stacks.image import check_image
    from pipelines.replay import experiment_of

    check_image(config)
    options = replay_options(source.name, experiment_of(source), labels, config)
    if not _was_cut_short(home, labels.name, arguments):
        refuse_taken(labels.name)
        return options
    attempts = attempts_of(find_run(labels.name))
    return options | {"run_name": resumed_name(labels.name, (each.name for each in attempts))}


def _was_cut_short(home: Home, name: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether the run of a name was given the same arguments, and no attempt at it goes on or has finished."""
    from mlops.runs.finding import UNFINISHED, attempts_of, is_alive

    if (first := run_called(name)) is None:
        return False
    given = {key: value for key, value in (first.config.parameters or {}).items() if key != "labels"}
    if given != {key: value for key, value in arguments.items() if key != "labels"}:
        return False
    return not any(
        is_alive(home, each) if each.status in UNFINISHED else each.status.is_successful for each in attempts_of(first)
    )


def _finish(folder: Path, target: Path | None, stack: str | None, *, as_json: bool) -> Mapping[str, Any]:
    """Print the summary of a replay, which is in its `folder`, write it to `target` if there is one, and return it.

    Raises StorageError if it cannot be read.
    """
    found, file = read_stored(folder, target, "give the same command again")
    if as_json:
        console.write_json(found)
        return found
    parts = [part for block in replay_blocks(found) for part in shown(block, "bold")]
    parts += [f"Summary: {file}", f"MLflow: {show_ui(stack)}"]
    console.print(Panel(Group(*parts), title=styled(f"rlft {found['kind']}: {found['name']}"), expand=False))
    return found
