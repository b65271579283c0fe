"""Cause the faults, and count how they end. Progress goes to stderr; the last line is one JSON object."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.faults import artifacts, disks, processes, starts, trackers
from benchmarks.faults.scene import Fault, Scene, Verdict

ROOMS = (artifacts, starts, trackers, disks, processes)


@dataclass(frozen=True)
class Line:
    """What became of one fault."""

    kind: str
    name: str
    verdict: Verdict
    recovered: bool
    said: str
    seconds: float


def try_fault(scene: Scene, fault: Fault) -> Line:
    """Cause a fault and judge it. `said` is the end of the first command's output, or of the last one that failed."""
    started = time.monotonic()
    seen = fault.cause(scene)
    verdict, recovered = scene.judge(seen)
    told = next((result for result in reversed(seen.results) if result.code != 0), seen.results[0])
    said = " ".join(told.output.split())[-600:]
    return Line(fault.kind, fault.name, verdict, recovered, said, round(time.monotonic() - started, 1))


def summary(lines: list[Line]) -> dict[str, object]:
    """Return the counts by kind and in all, and each fault."""
    kinds = sorted({line.kind for line in lines})

    def count(chosen: list[Line]) -> dict[str, int]:
        verdicts = Counter(line.verdict for line in chosen)
        ends = {name: verdicts[name] for name in ("survived", "stopped", "raw", "silent")}
        recovered = sum(line.recovered for line in chosen if line.verdict == "stopped")
        return {"tried": len(chosen), **ends, "recovered": recovered}

    by_kind = {kind: count([line for line in lines if line.kind == kind]) for kind in kinds}
    return {**count(lines), "by_kind": by_kind, "faults": [asdict(line) for line in lines]}


def main(arguments: list[str]) -> int:
    """Try the chosen faults; the exit code is 1 if one was silent."""
    # Under `nohup` it is ignored, and what is started inherits that: the runs would rightly go on.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_argument("--kind", action="append", help="only faults of this kind")
    parser.add_argument("--only", default="", help="only faults whose name holds this text")
    parser.add_argument("--folder", type=Path, help="where the homes are made; a temporary folder if none is given")
    options = parser.parse_args(arguments)
    chosen = [fault for room in ROOMS for fault in room.faults()]
    chosen = [each for each in chosen if options.only in each.name and each.kind in (options.kind or [each.kind])]
    lines = []
    with tempfile.TemporaryDirectory(prefix="rlft-faults-") as temporary:
        scene = Scene(options.folder or Path(temporary))
        for fault in chosen:
            line = try_fault(scene, fault)
            lines.append(line)
            shown = f"{line.verdict:9}{'recovered ' if line.recovered else '          '}{line.seconds:6.1f} s  "
            sys.stderr.write(f"{shown}{line.kind}: {line.name}\n")
            if line.verdict in ("raw", "silent") or not line.recovered:
                sys.stderr.write(f"    {line.said[-300:]}\n")
            sys.stderr.flush()
    found = summary(lines)
    if not options.json:
        found.pop("faults")
    sys.stdout.write(json.dumps(found) + "\n")
    return 1 if found["silent"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
