"""What `rlft rescore` and `rlft retrain` share: how they begin, and how what they came to is shown."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.panel import Panel

from cli.result import read_stored, show_ui, shown
from cli.resume import claim_early
from cli.start import check_kept, say_start
from mlops.home.folder import Home
from mlops.ids import resumed_name
from mlops.runs.labels import Labels, make_labels, refuse_taken, run_called
from mlops.summary.replays import replay_blocks
from mlops.tracking.address import HOME
from rlft.reporting.terminal import console, styled

if TYPE_CHECKING:
    from mlops.runs.replayed import Source
    from rlft.config import Config


def open_home(home: Home, run: str, stack: str | None, held: ExitStack) -> str:
    """Connect ZenML to the home or to a stack, and hold the name of the run that is replayed, so that it stays.

    Returns where MLflow is, as a pipeline is given it. Raises RlftError if the home has no such run, or if it goes on.
    """
    check_kept(home)
    claim_early(home, run, stack, held)
    say_start(f"the replay of {run}")
    from mlops.stacks.stack import connect

    tracking_uri = connect(home, stack)
    return tracking_uri if stack else HOME


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


def labels_for(kind: str, source: str, name: str | None, commits: dict[str, str] | None = None) -> Labels:
    """Return the labels of a replay; without a name it is called after the run that it is made from, and the time.

    `commits` are those of the code that a config names, as `users_commits` finds them.
    Raises RlftError for a name that cannot be one.
    """
    made = name or f"{source}-{kind}-{datetime.now():%H%M%S-%f}"
    return make_labels(source, name=made, tags=[], commits=commits or {})


def finish_replay(folder: Path, target: Path | None, stack: str | None, *, as_json: bool) -> Mapping[str, Any]:
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
