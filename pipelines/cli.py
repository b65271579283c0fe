"""The command line: `rlft run | resume | show | audit | environments | serve-engine | ui | stack | doctor`.

Heavy libraries are imported inside the commands: `rlft --help` is quick, and ZenML must see its environment first.

Exit codes: 0 the run finished (improved or not), 1 it failed, 2 the set-up cannot work, 3 too hard, 4 already solved,
130 interrupted.
"""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from pipelines import environments_cli, show_cli
from pipelines.config_file import check_variables, load_config
from pipelines.guard import errors, guarded
from pipelines.home import Home, find_home
from pipelines.interrupt import keep_from_zenml
from pipelines.terminal import Terminal
from rlft.errors import RlftError, WeightsRemovedError

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.command()(show_cli.show)
app.add_typer(environments_cli.app, name="environments")
console = Terminal()

ConfigPath = Annotated[Path, typer.Argument(help="A YAML file such as configs/demo.yaml.")]
Overrides = Annotated[list[str] | None, typer.Option("--set", help="Change a setting: --set training.rounds=3")]
Stack = Annotated[str | None, typer.Option(help="A ZenML stack of yours; without it everything lives in .rlft/.")]
Summary = Annotated[Path | None, typer.Option(help="Also write the summary here, as JSON.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show the full logs.")]


@app.command()
def run(
    config: ConfigPath,
    overrides: Overrides = None,
    stack: Stack = None,
    summary: Summary = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do every step again.")] = False,
    verbose: Verbose = False,
) -> None:
    """Run an experiment from tasks to registry."""
    with guarded(verbose, summary) as interrupt:
        home = find_home()
        settings = load_config(config, overrides)
        if stack is None:  # a stack's machines have variables of their own
            check_variables(settings)
        _check_target(summary)
        from pipelines.stack import connect

        tracking_uri = connect(home, stack)
        keep_from_zenml()
        from pipelines.train import train

        name = f"{settings.name}-{datetime.now():%Y%m%d-%H%M%S-%f}"
        interrupt.run_name = name if stack is None else None  # on a stack it may go on elsewhere
        pipeline = train.with_options(run_name=name)
        if no_cache:
            pipeline = pipeline.with_options(enable_cache=False)
        arguments = {"config": settings.model_dump(mode="json"), "tracking_uri": tracking_uri}
        try:
            finished: Any = pipeline(**arguments)
        except WeightsRemovedError as removed:
            from pipelines.retention import forget_removed

            forget_removed()
            errors.print(f"{removed.what}; they are trained again, from cached rollouts")
            interrupt.run_name = interrupt.run_name and f"{name}-again"
            finished = pipeline.with_options(run_name=f"{name}-again")(**arguments)
        _finish(home, str(finished.id), summary)


@app.command()
def resume(
    run: Annotated[str, typer.Argument(help="Id or name of a run that failed or was killed.")],
    stack: Stack = None,
    summary: Summary = None,
    verbose: Verbose = False,
) -> None:
    """Finish a run that was cut short, without repeating finished steps."""
    with guarded(verbose, summary) as interrupt:
        home = find_home()
        from pipelines.stack import connect

        connect(home, stack)
        keep_from_zenml()
        from pipelines.runs import find_run, resumable_attempt
        from pipelines.train import train

        found = resumable_attempt(home, find_run(run))
        name = f"{found.name.split('-resumed-')[0]}-resumed-{datetime.now():%H%M%S-%f}"
        interrupt.run_name = name if stack is None else None
        finished = train.with_options(run_name=name).replay(pipeline_run=found.id, skip_successful_steps=True)
        _finish(home, str(finished.id), summary)


@app.command()
def audit(config: ConfigPath, overrides: Overrides = None, verbose: Verbose = False) -> None:
    """Attack a config's reward with wrong answers, without training."""
    with guarded(verbose, None):
        settings = load_config(config, overrides)
        from rlft.environments.loading import load_environment
        from rlft.rewards.audit import audit_reward
        from rlft.rollout import limits_of
        from rlft.tasks import ingest_tasks

        environment = load_environment(settings.environment.name, settings.environment.kwargs)
        tasks = ingest_tasks(settings.tasks, environment=settings.environment.name, seed=settings.tasks.seed)
        report = audit_reward(
            tasks.split("train"),
            environment,
            weights=settings.reward.weights,
            full=settings.reward.full,
            timeout_seconds=settings.reward.timeout_seconds,
            limits=limits_of(settings.harness),
            seed=settings.seed,
        )
        console.print(report.text())
        if not report.passed:
            raise typer.Exit(2)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def serve_engine(
    context: typer.Context,
    config: ConfigPath,
    overrides: Overrides = None,
    host: Annotated[str, typer.Option(help="Only an adapter can be served to other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 8000,
    verbose: Verbose = False,
) -> None:
    """Serve a config's model with vLLM for `rollout.engine: vllm_server`; further options go to `vllm serve`."""
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
    port: Annotated[int, typer.Option(help="Port on this machine.")] = 5000,
    verbose: Verbose = False,
) -> None:
    """Show runs, curves, traces and models in the MLflow UI on loopback."""
    with guarded(verbose, None):
        import subprocess

        home = find_home()
        if not (home.root / "mlflow.db").is_file():
            raise RlftError("nothing has been tracked yet", where=str(home.root), fix="start a run first")
        console.print(f"http://127.0.0.1:{port} (Ctrl-C ends it)")
        command = [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", str(port)]
        arguments = [*command, "--backend-store-uri", home.tracking_uri, "--workers", "1"]
        code = subprocess.call(arguments, start_new_session=True)  # Ctrl-C is for us; it would print a traceback
        raise typer.Exit(code)


@app.command()
def stack(
    file: Annotated[Path, typer.Argument(help="A YAML file such as configs/stacks/local.yaml.")],
    verbose: Verbose = False,
) -> None:
    """Register or update a stack from a file, in your own ZenML."""
    with guarded(verbose, None):
        from pipelines.stack_file import apply_stack_file, read_stack_file

        name = apply_stack_file(read_stack_file(file))
        console.print(f"Stack {name} is registered: rlft run CONFIG --stack {name}")


@app.command()
def doctor(verbose: Verbose = False) -> None:
    """Say what is missing or broken on this machine, and mark runs that were killed as failed."""
    with guarded(verbose, None):
        from pipelines.doctor import examine

        if not examine(find_home(), console):
            raise typer.Exit(1)


def _check_target(summary: Path | None) -> None:
    """Find out before hours of training whether the summary can be written."""
    if summary is None:
        return
    try:
        summary.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=summary.parent):
            pass
    except OSError as cause:
        place = f"--summary {summary}"
        raise RlftError(f"nothing can be written there: {cause}", where=place, fix="name another file") from cause


def _finish(home: Home, run_id: str, target: Path | None) -> None:
    """Show the summary, write it where it was asked for, and end with its exit code."""
    from pipelines.files import write_file
    from pipelines.result import show_summary
    from pipelines.summary import EXIT_CODES

    text = home.summary_file(run_id).read_text()
    content: dict[str, Any] = json.loads(text)
    if target is not None:
        write_file(target, text)
    where = [f"Summary: {target or home.summary_file(run_id)}", "Curves, traces, models: rlft ui"]
    show_summary(content, console, where=where)
    raise typer.Exit(EXIT_CODES[content["status"]])
