"""MLflow servers that are gone after the last round, hang all the time, or were never there."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

from benchmarks.faults.scene import Fault, Scene, Seen
from tests.e2e.conftest import TINY, Home, Result, free_port
from tests.servers_away import SHORT, command, hanging_server, tracker

NOT_REGISTERED = 5  # the exit code of a run whose tracker did not answer


def _run(home: Home, address: str, *arguments: str) -> Result:
    return Result(*command(home, address, *arguments))


def _ended_well(result: Result) -> Result:
    """Make a run that is as far as it could come without its tracker an end that the verdict takes for one."""
    told = result.code == NOT_REGISTERED and "not registered: the tracker did not answer" in result.output
    evaluated = result.summary is not None and bool(result.summary["final"])
    return result if told and evaluated else Result(0, "the policy was not evaluated, or the reason not told", None)


def _gone_after_the_last_round(scene: Scene) -> Seen:
    home, port = scene.empty(), free_port()
    address, there = f"http://127.0.0.1:{port}", tracker(port, home.folder)
    there.__enter__()

    def take_away() -> None:
        while not (home.folder / "done").exists():
            threading.Event().wait(0.05)
        there.__exit__(None, None, None)
        (home.folder / "gone").touch()

    threading.Thread(target=take_away, daemon=True).start()
    first = _ended_well(_run(home, address, "run", str(TINY), *SHORT))
    if first.summary is None:
        return Seen(home, [first], must_name="not registered", policies=False)
    with tracker(port, home.folder):
        resumed = _run(home, address, "resume", first.summary["pipeline_run_id"])
    return Seen(home, [first, resumed], policies=False)


def _never_there(scene: Scene, hangs: bool) -> Seen:
    home = scene.empty()
    (home.folder / "gone").touch()
    if hangs:
        with hanging_server() as address:
            first = _run(home, address, "run", str(TINY), *SHORT)
    else:
        first = _run(home, f"http://127.0.0.1:{free_port()}", "run", str(TINY), *SHORT)
    (missed,) = Path(home.folder / ".rlft" / "runs").glob("*/missed.json")
    return Seen(home, [_ended_well(first)], must_name="not registered", policies=missed.stat().st_size == 0)


def faults() -> list[Fault]:
    """Return a server that goes away, one that hangs, and one that is not there."""
    return [
        Fault("trackers", "gone after the last round, resumed when it is back", _gone_after_the_last_round),
        Fault("trackers", "hanging all the time", partial(_never_there, hangs=True)),
        Fault("trackers", "never there", partial(_never_there, hangs=False)),
    ]
