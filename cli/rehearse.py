"""`rlft rehearse`: begin a run here as a pod of a stack would."""

from __future__ import annotations

import shutil
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import ConfigPath, Overrides, Verbose
from cli.start import check_start, say_start
from mlops.display.terminal import console
from mlops.home.folder import find_home
from mlops.runtime.signals import keep_from_zenml
from rlft.config import Config
from rlft.config.file import load_config
from rlft.temporary import folder_prefix, remove_left_behind


def rehearse(
    config: ConfigPath,
    stack: Annotated[str, typer.Option(help="The ZenML stack of yours whose pods would run it.")],
    overrides: Overrides = None,
    verbose: Verbose = False,
) -> None:
    """Begin a run here as a pod of a stack would: in a bare copy of its files, packages and variables.

    The tasks are read, the environment is built, the loss is called, and the stack's store and MLflow are used. Nothing
    is trained, and no image is made. The exit code is 2 if a pod would fail.
    """
    with guarded(verbose, None):
        home, settings = find_home(), load_config(config, overrides)
        say_start(f"the rehearsal of {settings.name}")
        check_start(settings, home, stack=stack)
        from mlops.stacks.stack import connect

        tracking_uri = connect(home, stack)
        keep_from_zenml()
        from mlops.stacks.image import check_image

        check_image(settings)
        _rehearse(settings, stack, tracking_uri)
        console.print(f"A pod of {stack} would begin this run: rlft run {config} --stack {stack}")


def _rehearse(settings: Config, stack: str, tracking_uri: str) -> None:
    """Run the pipeline in a bare copy. Raises StackError if it fails; the copy stays then, for its log."""
    from zenml.client import Client
    from zenml.config import DockerSettings

    from mlops.runs.finding import end_run
    from mlops.runs.settings import as_parameter
    from mlops.stacks.rehearsal import instead_of_pods, make_copy
    from pipelines.rehearse import rehearse as pipeline
    from rlft.errors import StackError

    active = Client().active_stack
    if active.orchestrator.flavor == "local":
        raise StackError(
            f"runs on {stack} begin on this machine, with all that it has",
            where="--stack",
            fix="there is nothing to rehearse: `rlft run` checks what it needs",
        )
    remove_left_behind("rehearsal")
    folder = Path(tempfile.mkdtemp(prefix=folder_prefix("rehearsal")))
    copy = make_copy(folder, settings, active)
    name = f"{settings.name}-rehearsal-{datetime.now():%Y%m%d-%H%M%S-%f}"
    named = pipeline.with_options(
        run_name=name,
        settings={"docker": DockerSettings(parent_image="rehearsed-here", skip_build=True)},
    )
    with instead_of_pods(active, copy):
        named(config=as_parameter(settings), tracking_uri=tracking_uri)
    end_run(find_home(), name, completed=copy.exit_code == 0)  # one that never began would be waited for by all
    copy.check()
    shutil.rmtree(folder, ignore_errors=True)
