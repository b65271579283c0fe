"""That the benchmark for GPUs runs on a CPU with tiny sizes, and that one part's failure leaves the others."""

import json
import subprocess
import sys

import pytest

from benchmarks import grpo_step, rollout
from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu.parts import HERE, ON_GPU, REHEARSAL, make_parts


@pytest.mark.slow
@pytest.mark.long
def test_rehearsal_measures_or_names_every_part(tmp_path):
    command = [sys.executable, "-m", "benchmarks.gpu", "--rehearse", "--out", tmp_path]
    done = subprocess.run(command, cwd=gpu.ROOT, capture_output=True, text=True)
    machine, *records = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
    assert machine["machine"]["rehearsal"]
    assert [record["part"] for record in records] == [part.name for part in make_parts(REHEARSAL, tmp_path)]
    by_state = {state: {r["kind"] for r in records if r["state"] == state} for state in ("measured", "lacking")}
    assert by_state["measured"] == {"step", "kernels", "canaries", "logprobs", "profiling"}, done.stderr
    assert by_state["lacking"] == {"step", "rollout", "canaries", "sleeping"}
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "table.md").read_text()
    assert table == done.stdout
    assert table.startswith("a rehearsal")
    assert "stale weights | " in table
    assert "refused |" in table
    assert "NOT REFUSED" not in table
    assert "by `liger` | lacking: liger-kernel" in table


@pytest.mark.parametrize("sizes", [ON_GPU, REHEARSAL], ids=["gpu", "rehearsal"])
def test_commands_are_understood(tmp_path, sizes):
    parsers = {f"{HERE}.grpo_step": grpo_step._parser(), f"{HERE}.rollout": rollout._parser()}
    parts = list(make_parts(sizes, tmp_path))
    assert len({part.name for part in parts}) == len(parts)
    for part in parts:
        module, *arguments = part.command
        if module in parsers:
            assert parsers[module].parse_args(arguments).device == sizes.device
