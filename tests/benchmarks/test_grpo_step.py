"""That the benchmark runs to its JSON line, and that it counts operations as its docstring says. No timing here."""

import contextlib
import io
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from benchmarks import grpo_growth, grpo_step, machine
from benchmarks.grpo_operations import Need, training_operations
from benchmarks.grpo_workload import SHAPES, Workload, make_prompts, make_tokenizer

SMALL = {
    "vocab_size": 50,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
}
SIZES = ("--groups", "2", "--group-size", "2", "--completion-tokens", "3", "--steps", "1", "--repeats", "1")


@pytest.fixture
def here(monkeypatch):
    """Children run in this process, on a model of two small layers and small matrices."""
    monkeypatch.setitem(SHAPES, "tiny", SMALL)
    monkeypatch.setattr(machine, "CPU_PRODUCT", 16)
    monkeypatch.setattr(grpo_step, "subprocess", SimpleNamespace(run=run_child))


def run_child(command, **options):
    assert command[1:3] == ["-m", "benchmarks.grpo_step"]
    assert options["env"]["OMP_NUM_THREADS"] == "1"
    return subprocess.CompletedProcess(command, 0, call_main(*command[3:]), "")


def call_main(*arguments):
    before, output = sys.argv, io.StringIO()
    sys.argv = ["grpo_step", *arguments]
    try:
        with contextlib.redirect_stdout(output):
            grpo_step.main()
    finally:
        sys.argv = before
    return output.getvalue()


@pytest.mark.slow
def test_ends_with_all_keys(here):
    output = call_main("--prompt-tokens", "5", *SIZES, "--threads", "1", "--json")
    found = json.loads(output)  # alone on stdout
    keys = ("ratio", "rlft_seconds", "trl_seconds", "rlft_peak_mib", "trl_peak_mib", "share_of_matrix_peak")
    assert all(found[key] > 0 for key in (*keys, "matrix_gflops", "rlft_tokens_per_second"))
    for side in grpo_step.SIDES:
        parts = sum(found[f"{side}_{part}_seconds"] for part in ("sampling", "scoring", "training"))
        assert parts == pytest.approx(found[f"{side}_seconds"])
    assert [run["side"] for run in found["runs"]] == ["trl", "rlft"]
    assert found["workload"]["prompt_tokens"] == 5
    assert set(found["versions"]) == set(grpo_step.PACKAGES)


@pytest.mark.slow
def test_growth_measures_every_point(here, monkeypatch):
    monkeypatch.setattr(grpo_growth, "BASE", grpo_growth.BASE | {"completion_tokens": 2, "steps": 1, "vocabulary": 50})
    sizes = {"group_size": (2, 8), "prompt_tokens": (5, 100), "vocabulary": (50, 60)}
    monkeypatch.setattr(grpo_growth, "SIZES", sizes)
    output = call_main("--growth", "--threads", "1", "--repeats", "1")
    found = json.loads(output.splitlines()[-1])  # below the table
    assert [(row["changed"], row["size"]) for row in found["points"]] == [(n, s) for n in sizes for s in sizes[n]]
    assert all(row[side]["seconds"] > 0 for row in found["points"] for side in grpo_step.SIDES)
    assert found["growth"]["prompt_tokens"]["size_times"] == 20


def test_counts_what_a_step_needs():
    workload = Workload(prompt_tokens=3, groups=1, group_size=2, completion_tokens=3)
    # Read: 3 of the prompt, 2 of each completion (the last predicts nothing). Logits: after the prompt, and at those 4.
    # Pairs: 1 + 2 + 3 in the prompt; a completion's tokens see 4 and 5 keys, 18 for both. In the last layer only the
    # prompt's last token asks, with 3 keys.
    assert Need.of(workload) == Need(encoded=7, predicting=5, pairs=24, pairs_of_predicting=21)


@pytest.mark.parametrize("whole", [False, True])
def test_operations_by_hand(monkeypatch, whole):
    monkeypatch.setitem(SHAPES, "tiny", SMALL)
    workload = Workload(prompt_tokens=3, groups=1, group_size=2, completion_tokens=3)
    # Weights of a layer: q 8 x 8 = 64, k and v 8 x 4 = 32 each, o 64, three of 8 x 16 = 128 in the MLP: 576, of which
    # k and v are 64. First layer: 7 tokens x 6 x 576 = 24,192. Last: 6 x (7 x 64 + 5 x 512) = 18,048, whole 24,192.
    # Attention: 12 x 2 heads x width 4 = 96 a pair: 96 x (24 + 21) = 4,320, whole 96 x 48 = 4,608.
    # Head: 5 tokens x 6 x 8 x 50 = 12,000.
    expected = 24_192 + (24_192 if whole else 18_048) + (4_608 if whole else 4_320) + 12_000
    assert training_operations(workload, whole_last_layer=whole) == expected


def test_two_groups_are_twice_the_work():
    one, two = (training_operations(Workload(prompt_tokens=9, groups=groups, lora=True)) for groups in (1, 2))
    assert two == 2 * one


@pytest.mark.parametrize("size", [40, 70_000])  # the larger one has characters on both sides of the surrogates
def test_every_character_is_a_token(size):
    tokenizer = make_tokenizer(size)
    ids = list(range(0, size, max(1, size // 500)))
    text = tokenizer.decode(ids)
    assert len(text) == len(ids)
    assert tokenizer(text).input_ids == ids
    assert tokenizer.eos_token_id == size  # beyond what a model of that vocabulary can sample


def test_prompts_have_the_asked_length_and_differ():
    workload = Workload(prompt_tokens=16, groups=3, steps=2)
    prompts = make_prompts(workload)
    assert len(set(prompts)) == len(prompts) == 9
    assert {len(make_tokenizer(98)(prompt).input_ids) for prompt in prompts} == {16}


def test_memory_between_steps_is_not_counted():
    watch = machine.StepWatch("cpu")
    for size in (1, 64):
        watch.begin()
        block = bytearray(size * machine.MIB)
        watch.end(sampling=0.0)
        del block
        outside = bytearray(200 * machine.MIB)
        del outside
    found = watch.report()
    assert 60 < found["peak_mib"] < 150
    assert len(found["steps"]) == 1  # without the warm-up
