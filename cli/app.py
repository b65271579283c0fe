"""The command line: `rlft run | resume | show | audit | environments | serve-engine | ui | stack | doctor`.

Heavy libraries are imported inside the commands: `rlft --help` is quick, and ZenML must see its environment first.

Exit codes: 0 the run finished (improved or not), 1 it failed, 2 the set-up cannot work, 3 too hard, 4 already solved,
130 interrupted.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import environments as environments_cli
from cli import show as show_cli
from cli.guard import guarded
from cli.interrupt import keep_from_zenml
from cli.start import check_start, say_start
from mlops.display.terminal import Terminal, errors
from mlops.home.folder import Home, find_home
from mlops.home.processes import claimed
from mlops.runs.commits import users_commits
from mlops.runs.labels import AGAIN, make_labels, refuse_taken
from rlft.config.file import load_config
from rlft.errors import WeightsRemovedError

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
console = Terminal()

ConfigPath = Annotated[Path, typer.Argument(help="A YAML file such as configs/demo.yaml.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Change one setting, such as training.rounds=3; may be given often.")
]
Stack = Annotated[
    str | None, typer.Option(help="Run on this ZenML stack of yours; without it everything is kept in .rlft/.")
]
Summary = Annotated[Path | None, typer.Option(help="Also write the summary here, as JSON.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show the full logs.")]


@app.command()
def run(
    config: ConfigPath,
    overrides: Overrides = None,
    stack: Stack = None,
    summary: Summary = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Run every step again, also those whose results are stored.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="Name of the run; the experiment's with the time by default.")
    ] = None,
    note: Annotated[str | None, typer.Option(help="What MLflow shows as the run's description.")] = None,
    tags: Annotated[list[str] | None, typer.Option("--tag", help="Tag the run: --tag dataset=2026-11")] = None,
    verbose: Verbose = False,
) -> None:
    """Run an experiment from tasks to registry."""
    with guarded(verbose, summary) as interrupt, ExitStack() as held:
        home = find_home()
        settings = load_config(config, overrides)
        say_start(settings.name)
        check_start(settings, home, summary, stack=stack)
        commits = users_commits(config, settings.environment.name)
        labels = make_labels(settings.name, name=name, note=note, tags=tags or [], commits=commits)
        from mlops.stacks.stack import connect

        tracking_uri = connect(home, stack)
        if stack is not None:
            from mlops.stacks.image import check_image

            check_image(settings)
        held.enter_context(claimed(home, labels.name, stack))
        refuse_taken(labels.name)
        keep_from_zenml()
        from mlops.runs.lineage import pipeline_inputs, run_options
        from pipelines.train import train

        interrupt.run_name = labels.name if stack is None else None  # on a stack it may go on elsewhere
        pipeline = train.with_options(run_name=labels.name, **run_options(settings, labels))
        if no_cache:
            pipeline = pipeline.with_options(enable_cache=False)
        arguments = pipeline_inputs(settings, labels, tracking_uri if stack else None)
        try:
            finished: Any = pipeline(**arguments)
        except WeightsRemovedError as removed:
            from mlops.runs.retention import forget_removed

            forget_removed()
            errors.print(f"{removed.what}; they are trained again, from cached rollouts")
            interrupt.run_name = interrupt.run_name and f"{labels.name}{AGAIN}"
            finished = pipeline.with_options(run_name=f"{labels.name}{AGAIN}")(**arguments)
        _finish(home, str(finished.id), summary, stack)


@app.command()
def resume(
    run: Annotated[str, typer.Argument(help="Id or name of a run that failed or was killed.")],
    stack: Stack = None,
    summary: Summary = None,
    verbose: Verbose = False,
) -> None:
    """Finish a run that was cut short, without repeating finished steps."""
    with guarded(verbose, summary) as interrupt, ExitStack() as held:
        home = find_home()
        say_start(run)
        from mlops.stacks.stack import connect

        tracking_uri = connect(home, stack)
        keep_from_zenml()
        from mlops.runs.lineage import resumed
        from mlops.runs.runs import find_run, name_of, resumable_attempt
        from pipelines.train import train

        asked = find_run(run)
        held.enter_context(claimed(home, name_of(asked), stack))
        found = resumable_attempt(home, asked)
        again = resumed(found, tracking_uri if stack else None)
        interrupt.run_name = again.name if stack is None else None
        finished = train.with_options(run_name=again.name, **again.options).replay(
            pipeline_run=found.id, skip_successful_steps=True, input_overrides=again.inputs
        )
        _finish(home, str(finished.id), summary, stack)


app.command()(show_cli.show)
app.add_typer(environments_cli.app, name="environments")


@app.command()
def audit(config: ConfigPath, overrides: Overrides = None, verbose: Verbose = False) -> None:
    """Attack a config's reward with wrong answers, without training."""
    with guarded(verbose, None):
        settings = load_config(config, overrides)
        from rlft.contract.importing import check_syntax

        check_syntax(settings.environment.name, "environment.name", "Class")  # what follows takes seconds to import
        from mlops.display.bars import Display
        from rlft.audit.rewards import audit_reward
        from rlft.contract.loading import load_environment
        from rlft.tasks import ingest_tasks

        with Display().stage("reward audit") as progress:
            environment = load_environment(settings.environment.name, settings.environment.kwargs)
            tasks = ingest_tasks(
                settings.tasks, environment=settings.environment.name, seed=settings.tasks.seed, progress=progress
            )
            report = audit_reward(
                tasks.split("train"),
                environment,
                weights=settings.reward.weights,
                full=settings.reward.full,
                timeout_seconds=settings.reward.timeout_seconds,
                harness=settings.harness,
                seed=settings.seed,
                progress=progress,
            )
        console.print(report.text())
        if not report.passed:
            raise typer.Exit(2)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def serve_engine(
    context: typer.Context,
    config: ConfigPath,
    overrides: Overrides = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than loopback only for adapters.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 8000,
    verbose: Verbose = False,
) -> None:
    """Start a vLLM server for `rollout.engine: vllm_server`; further options are passed on to `vllm serve`."""
    with guarded(verbose, None):
        import os

        settings = load_config(config, overrides)
        from rlft.engines.serving import serve_command

        home = find_home()
        home.make()
        folder = home.root / "serve-engine" / settings.name
        command, variables = serve_command(settings, folder, host=host, port=port, extra=context.args)
        name = f"[{host}]" if ":" in host else host
        console.print(f"http://{name}:{port} (Ctrl-C ends it)")
        sys.stdout.flush()
        os.execve(command[0], command, {**os.environ, **variables})


@app.command()
def ui(
    stack: Annotated[str | None, typer.Option(help="The MLflow server of this ZenML stack of yours.")] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen.  [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.  [default: 5000]", min=1, max=65535)] = None,
    verbose: Verbose = False,
) -> None:
    """Show runs, curves, traces and models in the MLflow UI, on loopback unless another host is named."""
    with guarded(verbose, None):
        from cli.ui import show_ui

        raise typer.Exit(show_ui(find_home(), stack, host, port, console))


@app.command()
def stack(
    file: Annotated[Path, typer.Argument(help="A YAML file such as configs/stacks/local.yaml.")],
    verbose: Verbose = False,
) -> None:
    """Register or update a stack from a file, in your own ZenML."""
    with guarded(verbose, None):
        from mlops.stacks.file import apply_stack_file, read_stack_file

        name = apply_stack_file(read_stack_file(file))
        console.print(f"Stack {name} is registered: rlft run CONFIG --stack {name}")


@app.command()
def doctor(verbose: Verbose = False) -> None:
    """Say what is missing or broken on this machine, and mark runs that were killed as failed."""
    with guarded(verbose, None):
        from cli.doctor import examine

        if not examine(find_home(), console):
            raise typer.Exit(1)


def _finish(home: Home, run_id: str, target: Path | None, stack: str | None) -> None:
    """Show the summary, write it where it was asked for, and end with its exit code."""
    from cli.result import show_summary
    from mlops.runs.summary import EXIT_CODES
    from mlops.runs.summary_file import read_summary, summary_text
    from rlft.errors import StorageError
    from rlft.files import write_file

    summary = read_summary(home, run_id)
    if summary is None:
        file = home.summary_file(run_id)
        raise StorageError("the run's summary cannot be read", where=str(file), fix="rlft resume writes it anew")
    if target is not None:
        write_file(target, summary_text(summary))
    ui = f"rlft ui --stack {stack}" if stack else "rlft ui"
    where = [f"Summary: {target or home.summary_file(run_id)}", f"Curves, traces, models: {ui}"]
    show_summary(summary, console, where=where)
    raise typer.Exit(EXIT_CODES[summary.status])
