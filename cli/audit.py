"""`rlft audit`: attack a reward before anything is trained on it."""

from __future__ import annotations

import typer

from cli.guard import guarded
from cli.options import ConfigPath, Overrides, ResultAsJson, Verbose
from rlft.config.file import load_config
from rlft.reporting.terminal import console, styled


def audit(
    config: ConfigPath,
    overrides: Overrides = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Attack a config's reward with wrong answers, without training.

    The exit code is 2 if the reward pays them, or does not pay a right answer in full, and 0 otherwise.
    """
    with guarded(verbose, None):
        settings = load_config(config, overrides)
        from rlft.environments.contract.loading import load_environment
        from rlft.reporting.bars import Display
        from rlft.rewards.audit.rewards import audit_reward, way_out
        from rlft.tasks import ingest_tasks

        with Display().stage("reward audit") as progress:
            environment = load_environment(settings.environment.name, settings.environment.kwargs)
            tasks = ingest_tasks(
                settings.tasks, environment=settings.environment.name, seed=settings.tasks.seed, progress=progress
            )
            report = audit_reward(
                tasks.split("train"),
                environment,
                settings.reward,
                harness=settings.harness,
                seed=settings.seed,
                progress=progress,
            )
        if as_json:
            console.write_json(report.to_json())
        else:
            console.print(report.text())
        if report.passed and not as_json:
            accepted = (
                f" but what reward.accept_exploits names: {', '.join(report.accepted)}" if report.accepted else ""
            )
            shown = "no wrong answer is paid like a right one" if report.compares else "not compared with right answers"
            console.print(styled(f"The audit passes: {shown}{accepted}."))
        if not report.passed:
            if not as_json:
                console.print(styled("The audit fails, and `rlft run` would stop here.", "red"))
                console.print(f"  what to do: {way_out(settings)}")
            raise typer.Exit(2)
