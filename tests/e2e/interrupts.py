"""Interrupt a tiny run at many moments of its life, look at how it ends, and go on with some of what is left.

    python -m tests.e2e.interrupts --moments 100 --resumed 20 --cold 10

A moment is a share of the processor time that an uninterrupted run takes, so a busy machine does not move it. Most runs
are forked from this process, which has imported what takes long; `--cold` ones are processes of their own, interrupted
while they import as well. An interrupt is clean when the process ends with 130, one sentence and no traceback; a run
that had ended before it got the signal is counted apart.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.conftest import TINY, Home

SHORT = ("training.rounds=2", "controls=[]")
COMMAND = ("run", str(TINY), *(part for setting in SHORT for part in ("--set", setting)))
SECONDS = 240.0


@dataclass(frozen=True)
class End:
    """How a process ended; `cpu` is its processor time in seconds."""

    code: int
    output: str
    cpu: float

    @property
    def is_clean(self) -> bool:
        """One sentence that begins with what happened, and nothing else of it."""
        said = [line for line in self.output.splitlines() if line.startswith("interrupted")]
        return self.code == 130 and len(said) == 1 and "Traceback" not in self.output and "rror" not in self.output


def command_line(*arguments: str) -> None:
    """The console script, in a fork."""
    from cli.__main__ import main

    main(list(arguments))


def fork(home: Home, function: Callable[..., None], *arguments: str) -> psutil.Process:
    """Call a function in a process of its own, whose output goes to `output` in the home."""
    pid = os.fork()
    if pid:
        return psutil.Process(pid)
    code = 1
    try:
        os.chdir(home.folder)
        os.environ.clear()
        os.environ.update(home.environment())
        file = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, 1), os.dup2(file, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        function(*arguments)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)


def start_cold(home: Home, *arguments: str) -> psutil.Popen:
    """The console script in a process that imports everything itself."""
    with open(home.folder / "output", "w") as file:
        return psutil.Popen(
            [sys.executable, "-m", "cli", *arguments],
            cwd=home.folder,
            env=home.environment(),
            stdout=file,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


def wait(process: psutil.Process, home: Home, moment: float | None = None) -> End:
    """Wait for its end, and interrupt it when it has used `moment` seconds of processor time."""
    until, cpu = time.monotonic() + SECONDS, 0.0
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > until:
            process.kill()
        cpu = max(cpu, sum(process.cpu_times()[:2]))
        if moment is not None and cpu >= moment:
            process.send_signal(signal.SIGINT)
            moment = None
        time.sleep(0.005)
    code = process.wait()
    return End(code, (home.folder / "output").read_text(), cpu)


def hashes(target: str) -> None:
    """Write what the newest run made: its policies by content, and its evaluation."""
    from mlops.home.folder import find_home, quieten
    from mlops.stacks.stack import connect

    quieten(False)
    connect(find_home(), None)
    from zenml.client import Client

    run = Client().list_pipeline_runs(sort_by="desc:created", size=1)[0]
    names = ("warm_start", *(f"train_grpo_r{number:03d}" for number in range(2)))
    made = {name: run.steps[name].outputs["policy"][0].content_hash for name in names}
    summary = json.loads(find_home().summary_file(str(run.id)).read_text())
    Path(target).write_text(json.dumps({"made": made, **{key: summary[key] for key in ("final", "ledger", "status")}}))


def made_by(home: Home) -> dict[str, Any]:
    """What `hashes` found in a home."""
    wait(fork(home, hashes, "hashes.json"), home)
    return json.loads((home.folder / "hashes.json").read_text())


def go_on(home: Home, output: str) -> End:
    """Resume by the name in the sentence, or give the command again where there was no run."""
    names = re.findall(r"`rlft resume ([\w-]+)` goes on", output)
    return wait(fork(home, command_line, *(("resume", names[0]) if names else COMMAND)), home)


def import_what_takes_long() -> None:
    """Nothing of ZenML, which opens a home's stores when it is imported."""
    import datasets
    import mlflow
    import peft
    import transformers.models.llama.modeling_llama  # noqa: F401

    assert datasets, (mlflow, peft)


def say(text: str) -> None:
    """One line, at once: the whole takes long."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    """Report each moment, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--resumed", type=int, default=20)
    parser.add_argument("--cold", type=int, default=10)
    options = parser.parse_args()
    import_what_takes_long()
    with tempfile.TemporaryDirectory(prefix="rlft-interrupts-") as folder:
        failed = report(Path(folder), options.moments, options.resumed, options.cold)
    sys.exit(failed)


def report(folder: Path, moments: int, resumed: int, cold: int) -> bool:
    """Whether anything was not as it should be."""

    def make_home(name: str) -> Home:
        (folder / name).mkdir()
        return Home(folder / name)

    whole = make_home("whole")
    left_alone = wait(fork(whole, command_line, *COMMAND), whole)
    assert left_alone.code == 0, left_alone.output
    expected = made_by(whole)
    say(f"left alone: {left_alone.cpu:.1f} s of processor time")
    counts = dict.fromkeys(("clean", "ended before", "not clean", "resumed", "resumed to other bytes"), 0)
    every_cold, every_resumed = max(1, moments // max(1, cold)), max(1, moments // max(1, resumed))
    imports = 0.0
    for number in range(moments):
        home = make_home(str(number))
        is_cold = cold > 0 and number % every_cold == 0
        if is_cold and not imports:
            alone = make_home("cold")
            imports = wait(start_cold(alone, *COMMAND), alone).cpu - left_alone.cpu
        # a cold one takes longer by its imports; the interpreter's own start, 0.1 s, cannot be taken care of
        whole_cpu = left_alone.cpu + (imports if is_cold else 0)
        moment = 0.1 + (number + 0.5) / moments * (whole_cpu - 0.1)
        process = start_cold(home, *COMMAND) if is_cold else fork(home, command_line, *COMMAND)
        end = wait(process, home, moment)
        kind = "clean" if end.is_clean else "ended before" if end.code == 0 else "not clean"
        counts[kind] += 1
        said = next((line for line in end.output.splitlines() if "interrupted" in line), "")
        say(f"{number:3} {'cold' if is_cold else 'fork'} {moment:5.2f} s  {end.code:4} {kind:12} {said}")
        if kind == "not clean":
            say(end.output)
        chosen = resumed > 0 and number % every_resumed == every_resumed // 2
        if chosen and kind == "clean":
            again = go_on(home, end.output)
            same = again.code == 0 and made_by(home) == expected
            counts["resumed" if same else "resumed to other bytes"] += 1
            say(f"    resumed: {again.code}, {'the same bytes' if same else again.output}")
    say(json.dumps(counts))
    return counts["not clean"] + counts["resumed to other bytes"] > 0


if __name__ == "__main__":
    main()
