"""That the benchmark for GPUs runs on a CPU with tiny sizes, and that one part's failure leaves the others."""

import argparse
import json
import subprocess
import sys

import pytest

from benchmarks import grpo_step, rollout
from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu.parts import GPU, HERE, ON_GPU, REHEARSAL, VLLM, Part, make_parts
from benchmarks.gpu.table import to_markdown


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


def test_what_is_lacking_too_long_or_wrong_is_listed_and_the_rest_goes_on(tmp_path):
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text('{"found": 1}')
    bad.write_text("none")
    parts = [
        Part("lacking", "step", ("json.tool", "--compact", str(good)), 1, (GPU, VLLM)),
        Part("too long", "step", ("json.tool", "--compact", str(good)), 1e6),
        Part("slow", "step", ("timeit", "-n1", "-r1", "import time; time.sleep(60)"), 0.4),
        Part("wrong", "step", ("json.tool", str(bad)), 60),
        Part("right", "model", ("json.tool", "--compact", str(good)), 60),
    ]
    records = [gpu.run_part(part, {GPU, VLLM}, 1000.0, threads=1) for part in parts]
    assert [record["state"] for record in records] == ["lacking", "not run", "failed", "failed", "measured"]
    reasons = [record.get("reason", "") for record in records]
    assert reasons[:3] == [
        "it needs a GPU and vLLM",
        "it may take 1000000 s, and 1000 s are left",
        "it took more than 0 s",
    ]
    assert reasons[3].startswith("Expecting value: ")
    assert records[4]["result"] == {"found": 1}
    table = to_markdown(gpu.describe_machine(rehearsal=True), records[:4])
    assert [line.split(":")[0] for line in table.splitlines() if line.startswith("- ")] == [
        "- lacking",
        "- not run",
        "- failed",
        "- failed",
    ]


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu"])
    with pytest.raises(SystemExit):
        gpu.main()
    assert "--rehearse" in capsys.readouterr().err


def test_only_chosen_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(
        gpu,
        "run_part",
        lambda part, *_: {"part": part.name, "kind": part.kind, "seconds": 0.0, "state": "not run", "reason": "x"},
    )
    options = argparse.Namespace(out=tmp_path, budget=1.0, only=["canaries"], rehearse=True)
    records = gpu.run_parts(REHEARSAL, options)
    assert [record["kind"] for record in records] == ["canaries", "canaries"]
