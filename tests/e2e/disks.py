"""Runs whose disk fills up or turns read-only, in a mount namespace of their own, so that the disks are real.

    unshare --map-root-user --mount python -m tests.e2e.disks FOLDER

What takes long is imported once and forked. It prints, as JSON, the exit code and the output of each command.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mlops.home.folder import find_home
from mlops.home.variables import quieten
from tests.e2e.conftest import TINY, Home
from tests.e2e.interrupts import fork, import_what_takes_long, wait

SHORT = ("training.rounds=1", "controls=[]")
RUN = ("run", str(TINY), *(part for setting in SHORT for part in ("--set", setting)))


@dataclass(frozen=True)
class OnDisks(Home):
    """A home on one small disk, temporary files on another, the output of commands on neither."""

    @property
    def disk(self) -> Path:
        """Where the home is."""
        return self.folder / "disk"

    @property
    def temporary(self) -> Path:
        """Where temporary files go."""
        return self.folder / "temporary"

    def environment(self) -> dict[str, str]:
        """The environment of a user who has named both places."""
        return super().environment() | {"RLFT_HOME": str(self.disk / ".rlft"), "TMPDIR": str(self.temporary)}


def mount(*arguments: str | Path) -> None:
    """Mount something in this namespace."""
    subprocess.run(["mount", *map(str, arguments)], check=True)


def fill(folder: Path) -> None:
    """Write until the disk takes not one byte more."""
    for size in (1 << 16, 1):
        with (folder / f"filler{size}").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def turn_read_only(home: OnDisks) -> None:
    """Put what is on the disk in its place as a disk that nothing can be written to."""
    shutil.copytree(home.disk, home.folder / "copy")
    mount("--bind", home.folder / "copy", home.disk)
    mount("-o", "remount,bind,ro", home.disk)


ACTS = {
    "full": lambda home: fill(home.disk),
    "read-only": turn_read_only,
    "nothing": lambda home: None,
}


def main(folder: str) -> None:
    """Run and resume on disks that something befalls when the first round is trained."""
    home = OnDisks(Path(folder))
    for place in (home.disk, home.temporary):
        place.mkdir()
        mount("-t", "tmpfs", "-o", "size=24m", "none", place)  # room for the two runs that are stored there
    quieten(False)
    import_what_takes_long()

    def command(case: str, *arguments: str) -> None:
        from mlops.stacks.stack import connect

        quieten(False)
        tempfile.tempdir = None  # the imports have looked for it, in another environment
        connect(find_home(), None)
        from cli.__main__ import main as rlft
        from rlft.training import job

        train = job.train_round

        def befallen(*args, **kwargs):
            ACTS[case](home)
            return train(*args, **kwargs)

        job.train_round = befallen
        rlft(list(arguments))

    def rlft_alone(*arguments: str) -> None:
        from cli.__main__ import main as rlft

        rlft(list(arguments))

    ends = {}

    def end(name: str, function, *arguments: str) -> None:
        found = wait(fork(home, function, *arguments), home)
        ends[name] = [found.code, found.output]

    end("full", command, "full", *RUN, "--name", "small")
    for filler in home.disk.glob("filler*"):
        filler.unlink()
    end("read-only", command, "read-only", "resume", "small")
    end("still read-only", rlft_alone, "resume", "small")
    subprocess.run(["umount", str(home.disk)], check=True)
    end("resumed", command, "nothing", "resume", "small")
    sys.stdout.write(json.dumps(ends))
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
    os._exit(0)
