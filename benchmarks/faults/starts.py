"""The first seconds of a new home: killed while its databases are made, and several runs that begin at once."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from benchmarks.faults.processes import started
from benchmarks.faults.scene import Fault, Scene, Seen
from tests.e2e.conftest import TINY, Result

AFTER = (0.2, 0.6, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)  # seconds; the databases are made within the first five


def _killed(scene: Scene, seconds: float) -> Seen:
    home = scene.empty()
    pid, _, process = started(home, "run", str(TINY))
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    process.wait(60)
    return Seen(home, scene.follow(home, home.rlft("run", str(TINY))))


def _together(scene: Scene, count: int) -> Seen:
    """Start runs side by side; what is judged is the last one's end, and each must end well."""
    home = scene.empty()
    processes = []
    for number in range(count):
        pid, said, process = started(home, "run", str(TINY), "--summary", f"s{number}.json")
        said.rename(home.folder / f"said{number}")
        processes.append((pid, process))
    codes = [process.wait(600) for _, process in processes]
    text = "\n".join((home.folder / f"said{number}").read_text() for number in range(count) if codes[number] != 0)
    worst = max(codes, key=abs)
    if worst:
        return Seen(home, [Result(worst, text, None)])
    return Seen(home, [home.rlft("run", str(TINY))])


def faults() -> list[Fault]:
    """Return a kill at each of `AFTER`, and two and three runs at once."""
    made = [Fault("starts", f"killed after {after:g} s", partial(_killed, seconds=after)) for after in AFTER]
    return made + [Fault("starts", f"{count} runs at once", partial(_together, count=count)) for count in (2, 3)]
