"""That the benchmark runs to its JSON line, and that bare vLLM is set up as rlft's is. No timing here."""

import contextlib
import io
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from benchmarks import rollout
from benchmarks.grpo_workload import SHAPES
from benchmarks.rollout_table import TIMES, shares
from tests.needs import need_vllm

pytestmark = pytest.mark.slow

SMALL = {
    "vocab_size": 50,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
}
SIZES = ("--sizes", "tiny", "--prompts", "5", "--groups", "2", "--group-size", "2", "--completion-tokens", "3")
TURNS = ("--rounds", "1", "--repeats", "1", "--threads", "1", "--cache-gib", "0.05")
OUTSIDE = {"load_format"}  # rlft's engine gets its weights by the first push


@pytest.fixture
def started(monkeypatch):
    """Children run in this process, on a model of two small layers; what vLLM is started with and asked is noted."""
    need_vllm()
    monkeypatch.setitem(SHAPES, "tiny", SMALL)
    monkeypatch.setattr(rollout, "subprocess", SimpleNamespace(run=lambda *a, **kw: run_child(monkeypatch, *a, **kw)))
    monkeypatch.setattr(rollout.torch, "set_num_threads", rollout.torch.set_num_threads)  # vLLM replaces it
    return spy(monkeypatch)


def spy(monkeypatch):
    """A list of the settings of every vLLM that is started, and of what each is asked."""
    import vllm

    started = []

    class Noted(vllm.LLM):
        def __init__(self, model, **settings):
            started.append({"settings": settings, "asked": []})
            super().__init__(model, **settings)

        def generate(self, prompts, parameters, **options):
            started[-1]["asked"].append((prompts, parameters))
            return super().generate(prompts, parameters, **options)

    monkeypatch.setattr(vllm, "LLM", Noted)
    return started


def run_child(monkeypatch, command, **options):
    assert command[1:3] == ["-m", "benchmarks.rollout"]
    for name, value in options["env"].items():
        if name.startswith("VLLM_"):
            monkeypatch.setenv(name, value)
    return subprocess.CompletedProcess(command, 0, call_main(*command[3:]), "")


def call_main(*arguments):
    before, output = sys.argv, io.StringIO()
    sys.argv = ["rollout", *arguments]
    try:
        with contextlib.redirect_stdout(output):
            rollout.main()
    finally:
        sys.argv = before
    return output.getvalue()


def test_ends_with_all_keys_and_bare_is_alike(started):
    output = call_main(*SIZES, *TURNS, "--engines", "bare", "vllm", "transformers", "--json")
    found = json.loads(output)  # alone on stdout
    bare, own, slow = found["rows"]
    assert [row["side"] for row in found["rows"]] == ["bare", "vllm", "transformers"]
    assert found["share_of_bare_vllm"] == own["tokens_per_second"] / bare["tokens_per_second"]
    assert found["smallest_share_of_bare_vllm"] == found["share_of_bare_vllm"]
    assert found["push_share"] == own["push_seconds"] / own["seconds"] > 0
    assert found["proof_share"] == own["proof_seconds"] / own["seconds"] > 0
    assert (bare["push_seconds"], bare["proof_seconds"], slow["push_seconds"]) == (0, 0, 0)
    for row in found["rows"]:
        assert row["tokens_per_second"] == 12 / row["sampling_seconds"]  # 2 x 2 x 3
        assert row["seconds"] >= row["sampling_seconds"] + row["push_seconds"] + row["proof_seconds"]
    assert [len(run["rounds"]) for run in found["runs"]] == [1, 1, 1]  # without the warm-up
    assert found["main_point"] == {"model": "tiny", "prompt_tokens": 5}
    assert {"torch", "transformers"} < set(found["versions"])
    first, second = ({k: v for k, v in run["settings"].items() if k not in OUTSIDE} for run in started)
    assert first == second
    requests = [requests_of(run["asked"]) for run in started]
    assert requests[0] == requests[1]


def requests_of(asked):
    """Prompts and settings of the two rounds' requests, without seeds."""
    rounds = [
        (prompts, parameters) for prompts, parameters in asked if len(prompts) == 4 and parameters[0].max_tokens == 3
    ]
    assert len(rounds) == 2
    for _, parameters in rounds:
        assert len({each.seed for each in parameters}) == 4
        for each in parameters:
            each.seed = None
    return [(prompts, list(map(repr, parameters))) for prompts, parameters in rounds]


def test_shares_of_rows_by_hand():
    # At the main point 80 of bare's 100 tokens a second, and 1 + 2 of 10 seconds; at the other point 30 of 60.
    rates = {("bare", 5): 60, ("vllm", 5): 30, ("bare", 9): 100, ("vllm", 9): 80, ("transformers", 9): 40}
    seconds = dict.fromkeys(TIMES, 0.0) | {"seconds": 10.0, "push_seconds": 1.0, "proof_seconds": 2.0}
    rows = [
        {"side": side, "model": "tiny", "prompt_tokens": length, "tokens_per_second": rate, **seconds}
        for (side, length), rate in rates.items()
    ]
    found = shares(rows, ("tiny", 9))
    assert (found["share_of_bare_vllm"], found["smallest_share_of_bare_vllm"]) == (0.8, 0.5)
    assert (found["push_share"], found["proof_share"]) == (0.1, 0.2)
    assert [row["share_of_bare_vllm"] for row in found["rows"]] == [1, 0.5, 1, 0.8, 0.4]


def test_without_bare_there_is_no_share():
    row = {"side": "vllm", "model": "tiny", "prompt_tokens": 9, "tokens_per_second": 80, **dict.fromkeys(TIMES, 1.0)}
    found = shares([row], ("tiny", 9))
    assert found["share_of_bare_vllm"] is found["smallest_share_of_bare_vllm"] is None
    assert found["push_share"] == 1
