"""A sharded policy on disk: the bytes of one that was whole, from which any number of workers goes on."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
import torch

from rlft.models import PolicyFolder, load_policy, save_policy
from rlft.models.folder import OPTIMIZER_FILE, save_sharded_policy
from rlft.models.sharding import whole
from rlft.training.batching import ALONE
from rlft.training.trainer import Updater, prepare_optimizer
from tests.factories import make_lora_policy, make_policy, make_rollout, make_training, save_base
from tests.rlft.training.distributed.together import run_together

SETTINGS = make_training(max_kl=1e9)


def step(policy, world, number):
    groups = [
        [(make_rollout(f"t{task}", sample, completion=[3 + task, 4 + sample, 5 + number], policy="older"), advantage)
         for sample, advantage in enumerate((1.0, -0.5, 0.25))]
        for task in range(3)
    ]  # fmt: skip
    Updater(policy, SETTINGS, temperature=1.0, max_completion_length=4, reference=None, world=world).step(groups)


def train(source, target, world, *, numbers=(0,)):
    """Train the policy of a folder and store it in another one, as one worker or as one of several."""
    policy = load_policy(source, torch.device("cpu"))
    if world is not ALONE:
        policy.shard(world.mesh)
    prepare_optimizer(policy, SETTINGS, source.load_optimizer)
    for number in numbers:
        step(policy, world, number)
    if world is ALONE:
        save_policy(policy, target, round=1)
    else:
        made = save_sharded_policy(policy, target, writes=world.rank == 0, round=1)
        assert (made is not None) == (world.rank == 0)
    return {name: whole(parameter).float().numpy() for name, parameter in policy.trainable().items()}


def files_of(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("kind", ["full", "adapter", "bfloat16", "gpt2"])
@pytest.mark.slow
def test_a_folder_has_the_same_bytes_whoever_wrote_it_and_any_number_goes_on(tmp_path, kind):
    base = save_base(tmp_path / "base")
    made = {
        "full": make_policy,
        "adapter": partial(make_lora_policy, base),
        "bfloat16": partial(make_policy, dtype="bfloat16"),
        "gpt2": partial(make_policy, "gpt2"),
    }[kind]()
    first = save_policy(made, tmp_path / "first")
    two, one = tmp_path / "two", tmp_path / "one"
    weights, others = run_together(2, tmp_path, partial(train, first, two))
    for name, numbers in weights.items():
        np.testing.assert_array_equal(others[name], numbers)
    # What is written whole by one process that holds the same numbers has the same bytes.
    policy = load_policy(PolicyFolder(two), torch.device("cpu"))
    prepare_optimizer(policy, SETTINGS, PolicyFolder(two).load_optimizer)
    for name, parameter in policy.trainable().items():
        np.testing.assert_array_equal(parameter.detach().float().numpy(), np.asarray(weights[name], np.float32))
    save_policy(policy, one)
    assert files_of(one) == files_of(two)
    assert OPTIMIZER_FILE in files_of(two)
    assert json.loads((two / "policy.json").read_text())["round"] == 1
    assert not [file.name for file in tmp_path.iterdir() if file.name.startswith("tmp")]
    # Two goes on as one: moments and masters are there, to rounding.
    by_one = train(PolicyFolder(two), tmp_path / "by_one", ALONE, numbers=(1, 2))
    (by_two, _) = run_together(
        2, tmp_path / "two", partial(train, PolicyFolder(two), tmp_path / "by_two", numbers=(1, 2))
    )
    for name, numbers in by_one.items():
        np.testing.assert_allclose(by_two[name], numbers, atol=1e-2 if kind == "bfloat16" else 1e-5)
