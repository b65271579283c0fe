"""`rlft estimate`: what a run will take, before it is begun."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.estimated import show_estimate, show_schedule
from cli.guard import guarded
from cli.options import Overrides, Verbose
from cli.start import check_start
from mlops.home.folder import find_home
from rlft.config import Config
from rlft.config.file import load_config
from rlft.reporting.terminal import console, errors

if TYPE_CHECKING:  # they import numpy
    from rlft.estimation.estimate import Estimate
    from rlft.estimation.records import PastRun
    from rlft.schedule.settings import ScheduleConfig

_SHOWN = 8  # settings that differ from those of the records


def estimate(
    config: Annotated[
        Path,
        typer.Argument(
            help="A YAML file such as configs/demo.yaml, or a schedule such as configs/schedules/weekly.yaml."
        ),
    ],
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the estimate as JSON, and nothing else.")] = False,
    price_per_hour: Annotated[
        float | None, typer.Option(min=0, help="What an hour of the machine costs, in any currency.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=5, max=3600, help="The longest that a probe may take.")] = 60.0,
    probe: Annotated[bool, typer.Option("--probe", help="Probe the machine although there are records.")] = False,
    verbose: Verbose = False,
) -> None:
    """Say before a run how long it takes, how much memory and how many tokens, as ranges.

    It rests on the last runs of the same experiment in this home. Where there are none, a probe of at most a minute
    loads the model, samples a few attempts and trains on them; nothing of it is kept. Of a schedule it says what a run
    takes within its budget, and what that is by week and by month. The exit code is 2 if memory is
    too small or the run could not start, and 0 otherwise.
    """
    with guarded(verbose, None):
        home = find_home()
        schedule = _schedule_of(config)
        settings = _settings_of(config, schedule, overrides or [])
        check_start(settings, home, stack=None)
        from cli.past_work import past_runs

        runs = [] if probe else past_runs(home, settings)
        if not runs:
            why = "" if probe else f"No run of {settings.name} is usable here. "
            errors.print(f"{why}This machine is probed, for {seconds:g} s at most.")
        found = _from_records(settings, runs) if runs else _from_probe(settings, seconds)
        if as_json:
            console.write_json(_as_json(found, schedule, price_per_hour))
        else:
            show_estimate(found, settings.name, price_per_hour)
            if schedule is not None:
                show_schedule(found, schedule, price_per_hour)
        if found.room.verdict == "does_not_fit":
            raise typer.Exit(2)


def _schedule_of(file: Path) -> ScheduleConfig | None:
    """Return the schedule of a file; `None` of a config. Raises ConfigError for a schedule that cannot be used."""
    from rlft.config.file import read_settings

    if "cron" not in read_settings(file):
        return None
    from rlft.schedule.settings import load_schedule

    return load_schedule(file)[0]


def _settings_of(file: Path, schedule: ScheduleConfig | None, overrides: list[str]) -> Config:
    if schedule is None:
        return load_config(file, overrides)
    from rlft.schedule.settings import overrides_of

    return load_config(Path(schedule.config), [*overrides_of(schedule), *overrides])


def _as_json(found: Estimate, schedule: ScheduleConfig | None, price_per_hour: float | None) -> dict[str, Any]:
    said = found.as_json(price_per_hour)
    if schedule is None:
        return said
    from rlft.estimation.scheduled import as_json

    return said | {"schedule": as_json(schedule, found, price_per_hour)}


def _from_records(config: Config, runs: Sequence[PastRun]) -> Estimate:
    from rlft.distributed.demand import Demand, gpus_used
    from rlft.estimation.busy import busy_now, said_of
    from rlft.estimation.counts import counts_now, counts_of
    from rlft.estimation.estimate import estimate_run
    from rlft.estimation.records import changed_settings, rates_of_runs
    from rlft.estimation.trainers import assumed
    from rlft.estimation.work import work_of
    from rlft.readiness.device import gpus_here
    from rlft.readiness.policy import memory_bytes

    many = f"{len(runs)} past runs" if len(runs) > 1 else "1 past run"
    basis = [f"It rests on {many} of this experiment here: {', '.join(run.name for run in runs)}."]
    if changed := changed_settings(runs, config):
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        basis.append(
            f"The newest of them had other settings: {', '.join(changed[:_SHOWN])}{more}. Of these the numbers of "
            "rounds, tasks and attempts are counted with, and the length of attempts."
        )
    busy = busy_now()
    work = work_of(config, counts_of(runs[0], config) or counts_now(config))
    rates, gpus = rates_of_runs(runs, config, work, busy), gpus_here()
    basis += [*said_of(busy), *assumed(config.distributed, on_gpu=rates.on_gpu)]
    there = min(gpus) if rates.on_gpu and gpus else memory_bytes()
    used = gpus_used(Demand.of(config, on_gpu=rates.on_gpu), len(gpus))
    return estimate_run(config, work, rates, used, basis, there)


def _from_probe(config: Config, seconds: float) -> Estimate:
    from rlft.distributed.demand import Demand, gpus_used
    from rlft.estimation.estimate import estimate_run
    from rlft.estimation.probing import run_probe
    from rlft.estimation.samples import basis_of, counts_of_probe, rates_of_probe
    from rlft.estimation.trainers import assumed, by_trainers
    from rlft.estimation.work import work_of
    from rlft.readiness.device import gpus_here
    from rlft.readiness.policy import memory_bytes

    probed = run_probe(config, seconds)
    work = work_of(config, counts_of_probe(probed))
    rates, gpus = by_trainers(rates_of_probe(probed, config, work), config.distributed), gpus_here()
    there = min(gpus) if rates.on_gpu and gpus else memory_bytes()
    basis = [*basis_of(probed, config), *assumed(config.distributed, on_gpu=rates.on_gpu)]
    used = gpus_used(Demand.of(config, on_gpu=rates.on_gpu), len(gpus))
    return estimate_run(config, work, rates, used, basis, there)
