"""Disks that fill up, turn read-only or vanish while the first round is trained; real ones, in a mount namespace."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

from benchmarks.faults.scene import Fault, Scene, Seen
from tests.e2e.conftest import ROOT, Home, Result

SAYS = {
    "full": "make room there, then `rlft resume small`",
    "read-only": "rlft resume small",
    "still read-only": "set RLFT_HOME to a folder of yours",
    "no room for temporary files": "rlft resume small",
    "deleted": "start it anew",
}


@cache
def _ends(folder: Path) -> dict[str, Result]:
    """What each command came to; they follow each other in one home, until a resume ends the run."""
    folder.mkdir(parents=True)
    command = ["unshare", "--map-root-user", "--mount", sys.executable, "-m", "tests.e2e.disks", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=Home(ROOT).environment(), capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return {name: Result(code, output, None) for name, (code, output) in json.loads(done.stdout).items()}


def _befallen(scene: Scene, case: str) -> Seen:
    ends = _ends(scene.folder / "disks")
    last = [] if case == "deleted" else [ends["resumed"]]
    return Seen(Home(scene.folder / "disks"), [ends[case], *last], must_name=SAYS[case], policies=False)


def faults() -> list[Fault]:
    """Return what befalls the disks."""
    return [Fault("disks", case, partial(_befallen, case=case)) for case in SAYS]
