"""`rlft run`: an experiment from tasks to registry."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from cli.guard import guarded
from cli.options import (
    ConfigPath,
    NoCache,
    Overrides,
    RunName,
    Stack,
    Summary,
    SummaryAsJson,
    Sweeps,
    Tags,
    Verbose,
)
from cli.result import finish, run_to_end, with_weights
from cli.start import check_start, say_start
from cli.sweep import run_sweep
from mlops.home.folder import Home, find_home
from mlops.home.processes import claimed, resume_command
from mlops.runs.identity import users_commits
from mlops.runs.labels import make_labels, refuse_taken
from rlft.config import Config
from rlft.config.file import load_config
from rlft.errors import ConfigError


def run(
    config: ConfigPath,
    overrides: Overrides = None,
    stack: Stack = None,
    summary: Summary = None,
    as_json: SummaryAsJson = False,
    no_cache: NoCache = False,
    name: RunName = None,
    tags: Tags = None,
    sweep: Sweeps = None,
    verbose: Verbose = False,
) -> None:
    """Run an experiment: from the tasks to a model in the registry.

    The exit code is 0 if it finished, whether the model improved or not, 1 if it failed, 2 if the set-up cannot work,
    3 if the tasks are too hard, 4 if they are solved already, 5 if the model could not be registered, and 130, 143 or
    129 if it was interrupted.
    """
    with guarded(verbose, summary) as begun, ExitStack() as held:
        if sweep:
            if summary is not None or as_json:
                fix = "leave it out: each run has its own, and `rlft compare --json` has all of them"
                raise ConfigError("a sweep has no summary", where="--summary, --json", fix=fix)
            options = [*(["--no-cache"] if no_cache else []), *(["--verbose"] if verbose else [])]
            options += [
                *(["--stack", stack] if stack else []),
                *(part for tag in tags or [] for part in ("--tag", tag)),
            ]
            run_sweep(config, sweep, overrides or [], name, options)
        home = find_home()
        settings = load_config(config, overrides)
        say_start(settings.name)
        check_start(settings, home, stack=stack)
        commits = users_commits(config, settings)
        labels = make_labels(settings.name, name=name, tags=tags or [], overrides=overrides or [], commits=commits)
        tracking_uri = _connect(home, settings, stack)
        folder = home.run_folder(labels.name, shared=stack is not None)
        held.enter_context(claimed(folder))  # first: nobody else can take the name after the check
        refuse_taken(labels.name)
        from mlops.runs.resuming import pipeline_inputs, run_options
        from pipelines.train import train

        begun.folder, begun.resume = folder, resume_command(labels.name, stack)
        pipeline = train.with_options(run_name=labels.name, **run_options(settings, labels))
        pipeline = pipeline.with_options(enable_cache=False) if no_cache else pipeline
        arguments = pipeline_inputs(settings, labels, tracking_uri if stack else None)
        begin = partial(with_weights, partial(pipeline, **arguments), pipeline, arguments, labels.name)
        finish(folder, run_to_end(begin, begun), summary, stack, as_json=as_json)


def _connect(home: Home, settings: Config, stack: str | None) -> str:
    """Return the address of MLflow, once ZenML is that of the run. Raises RlftError if the stack cannot run it."""
    from mlops.stacks.stack import connect

    tracking_uri = connect(home, stack)
    if stack is not None:
        from mlops.stacks.image import check_image

        check_image(settings)
    return tracking_uri
