"""The command line: `rlft run | resume | audit | ui | stack | doctor`.

Heavy libraries are imported inside the commands: `rlft --help` is quick, and ZenML must see its environment first.

Exit codes: 0 the run finished (improved or not), 1 it failed, 2 the set-up cannot work, 3 too hard, 4 already solved,
130 interrupted.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler

from pipelines.config_file import load_config
from pipelines.home import Home, find_home, quieten
from rlft.errors import RlftError

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
console = Console()
errors = Console(stderr=True)

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
    with _guarded(verbose, summary):
        home = find_home()
        settings = load_config(config, overrides)
        from pipelines.stack import connect

        tracking_uri = connect(home, stack)
        from pipelines.train import train

        pipeline = train.with_options(run_name=f"{settings.name}-{datetime.now():%Y%m%d-%H%M%S-%f}")
        if no_cache:
            pipeline = pipeline.with_options(enable_cache=False)
        finished: Any = pipeline(config=settings.model_dump(mode="json"), tracking_uri=tracking_uri)
        _finish(home, str(finished.id), summary)


@app.command()
def resume(
    run: Annotated[str, typer.Argument(help="Id or name of a run that failed or was killed.")],
    stack: Stack = None,
    summary: Summary = None,
    verbose: Verbose = False,
) -> None:
    """Finish a run that was cut short, without repeating finished steps."""
    with _guarded(verbose, summary):
        home = find_home()
        from pipelines.stack import connect

        connect(home, stack)
        from pipelines.runs import find_run, make_resumable
        from pipelines.train import train

        found = find_run(run)
        make_resumable(home, found)
        again = train.with_options(run_name=f"{found.name.split('-resumed-')[0]}-resumed-{datetime.now():%H%M%S-%f}")
        finished = again.replay(pipeline_run=found.id, skip_successful_steps=True)
        _finish(home, str(finished.id), summary)


@app.command()
def audit(config: ConfigPath, overrides: Overrides = None, verbose: Verbose = False) -> None:
    """Attack a config's reward with wrong answers, without training."""
    with _guarded(verbose, None):
        settings = load_config(config, overrides)
        from rlft.environments.loading import load_environment
        from rlft.rewards.audit import audit_reward
        from rlft.tasks import ingest_tasks

        environment = load_environment(settings.environment.name, settings.environment.kwargs)
        tasks = ingest_tasks(settings.tasks, environment=settings.environment.name, seed=settings.tasks.seed)
        report = audit_reward(
            tasks.split("train"),
            environment,
            weights=settings.reward.weights,
            full=settings.reward.full,
            timeout_seconds=settings.reward.timeout_seconds,
            seed=settings.seed,
        )
        console.print(report.text(), markup=False)
        if not report.passed:
            raise typer.Exit(2)


@app.command()
def ui(
    port: Annotated[int, typer.Option(help="Port on this machine.")] = 5000,
    verbose: Verbose = False,
) -> None:
    """Show runs, curves, traces and models in the MLflow UI on loopback."""
    with _guarded(verbose, None):
        import subprocess

        home = find_home()
        if not (home.root / "mlflow.db").is_file():
            raise RlftError("nothing has been tracked yet", where=str(home.root), fix="start a run first")
        console.print(f"http://127.0.0.1:{port} (Ctrl-C ends it)")
        command = [sys.executable, "-m", "mlflow", "ui", "--host", "127.0.0.1", "--port", str(port)]
        code = subprocess.call([*command, "--backend-store-uri", home.tracking_uri, "--workers", "1"])
        raise typer.Exit(code)


@app.command()
def stack(
    file: Annotated[Path, typer.Argument(help="A YAML file such as configs/stacks/local.yaml.")],
    verbose: Verbose = False,
) -> None:
    """Register or update a stack from a file, in your own ZenML."""
    with _guarded(verbose, None):
        from pipelines.stack_file import apply_stack_file, read_stack_file

        name = apply_stack_file(read_stack_file(file))
        console.print(f"Stack {name} is registered: rlft run CONFIG --stack {name}")


@app.command()
def doctor(verbose: Verbose = False) -> None:
    """Say what is missing or broken on this machine, and mark runs that were killed as failed."""
    with _guarded(verbose, None):
        from pipelines.doctor import examine

        if not examine(find_home(), console):
            raise typer.Exit(1)


def main() -> None:
    """Entry point of the console script."""
    app()


@contextmanager
def _guarded(verbose: bool, summary: Path | None) -> Iterator[None]:
    """Set up logs, and turn every error into a message and an exit code; the trace goes to a file."""
    quieten(verbose)
    _show_logs(verbose)
    started = time.time()
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # environments are named by import path, often beside the config
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        errors.print("[yellow]interrupted; `rlft resume RUN` goes on where it stopped[/yellow]")
        _fail(summary, started, "interrupted")
        raise typer.Exit(130) from None
    except RlftError as error:
        errors.print(f"[red]error[/red] {_escape(error)}")
        _fail(summary, started, str(error))
        raise typer.Exit(error.exit_code) from None
    except Exception as error:
        trace = _keep_trace(traceback.format_exc())
        errors.print(f"[red]unexpected error[/red] {type(error).__name__}: {_escape(error)}")
        errors.print(f"  the whole trace is in {trace}; `rlft resume RUN` goes on where the run stopped")
        _fail(summary, started, f"{type(error).__name__}: {error}")
        raise typer.Exit(1) from None


def _keep_trace(text: str) -> Path:
    """Write a trace to the home, or where temporary files go if the home takes none."""
    name = f"rlft-error-{datetime.now():%Y%m%d-%H%M%S}.txt"
    for folder in (find_home().root / "logs", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        except OSError as cause:
            errors.print(f"{folder} cannot be written: {cause}")
        else:
            return folder / name
    errors.print(text, markup=False)
    return Path("(printed above)")


def _show_logs(verbose: bool) -> None:
    """Our own logs, quiet or full. They do not go up to the root logger, whose handlers are ZenML's."""
    handler = RichHandler(console=errors, show_path=False, show_time=verbose, show_level=verbose)
    for name in ("rlft", "pipelines", "steps", "materializers"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.DEBUG if verbose else logging.INFO)


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


def _fail(target: Path | None, started: float, reason: str) -> None:
    """Write the summary of a run that failed, where one was asked for: what it left since `started`, if it began."""
    if target is None:
        return
    from pipelines.files import write_file
    from pipelines.summary import empty_summary

    content = empty_summary("failed")
    for file in (find_home().root / "runs").glob("*.json"):
        if file.stat().st_mtime >= started and file.name.count(".") == 1:
            content = json.loads(file.read_text())
    write_file(target, json.dumps({**content, "status": "failed", "error": reason}, indent=1))


def _escape(error: BaseException) -> str:
    from rich.markup import escape

    return escape(str(error))
