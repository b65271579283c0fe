"""Several workers train as one does: losses, gradients and weights are the same, however rollouts are divided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from rlft.config.rollout import Sharding
from rlft.models.flops import ENCODED
from rlft.models.sharding import whole
from rlft.training.batching import ALONE
from rlft.training.losses import LOSSES
from rlft.training.trainer import Updater, prepare_optimizer
from tests.factories import make_rollout, make_training
from tests.rlft.models.small_models import VOCABULARY, add_lora, make_model, policy_of
from tests.rlft.training.distributed.together import run_together

pytestmark = pytest.mark.slow

STEPS = 3
LENGTHS = ((1, 9, 4, 4), (6, 2), (5, 5, 3))  # completions of three tasks: of four workers one has no rollout


@dataclass(frozen=True)
class Case:
    """A policy and settings."""

    settings: dict[str, Any] = field(default_factory=dict)
    family: str = "llama"
    lora: bool = False
    dtype: torch.dtype = torch.float64
    reference: bool = False
    shape: dict[str, Any] = field(default_factory=dict)
    sharding: Sharding = "full_shard"


def of_loss(name: str, **options: Any) -> Case:
    return Case({"loss_type": name, **LOSSES[name].example}, **options)


CASES = {
    **{f"{name} full": of_loss(name) for name in LOSSES},
    "dapo lora": of_loss("dapo", lora=True),
    "sequence": Case({"importance_sampling_level": "sequence"}),
    "kl by the adapter switched off": Case({"beta": 0.1}, lora=True),
    "kl by another policy": Case({"beta": 0.1}, reference=True),
    "engine corrected": Case(
        {"importance_sampling_correction": "sequence_truncate", "importance_sampling_max": 2.0, "num_iterations": 2}
    ),
    "many parts": Case({"per_step_token_budget": 12}),
    "checkpointing": Case({"gradient_checkpointing": True, "per_step_token_budget": 12}, lora=True),
    "weights kept": Case({"per_step_token_budget": 12, "num_iterations": 2}, sharding="shard_grad_op"),
    "weights kept lora": Case({"beta": 0.1, "per_step_token_budget": 12}, lora=True, sharding="shard_grad_op"),
    "weights kept checkpointing": Case({"gradient_checkpointing": True}, sharding="shard_grad_op", reference=True),
    "gpt2": Case(family="gpt2"),
    "tied": Case(shape={"tie_word_embeddings": True}),
    "a row per completion": Case(family="mistral"),
    "float32": Case(dtype=torch.float32),
    "float32 lora": Case(dtype=torch.float32, lora=True),
    "bfloat16": Case(dtype=torch.bfloat16),
    "adapter over bfloat16": Case(dtype=torch.bfloat16, lora=True),
}
# Four of which one has no rollout, for every loss, or two.
FOUR = [*(f"{name} full" for name in LOSSES), "engine corrected", "many parts", "weights kept", "bfloat16"]
# Of losses and norms, of gradients as a share of a tensor's own norm, and of weights. bfloat16 has three digits, and
# its weights, of about 1, lie 0.004 to 0.008 apart.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5, torch.bfloat16: 0.01}
OF_GRADIENTS = {torch.float64: 1e-8, torch.float32: 5e-5, torch.bfloat16: 0.04}
OF_WEIGHTS = {torch.float64: 1e-6, torch.float32: 5e-6, torch.bfloat16: 0.008}


@dataclass(frozen=True)
class Outcome:
    losses: list[float]
    norms: list[float]
    gradients: list[dict[str, np.ndarray]]  # of each step, before they are clipped
    metrics: dict[str, float]
    weights: dict[str, np.ndarray]
    held: int  # numbers of weights and optimizer in this process
    encoded: int  # rollouts that this worker was given


def train(case: Case, world: Any) -> Outcome:
    model = make_model(case.family, dtype=case.dtype, **case.shape)
    half = case.dtype == torch.bfloat16  # peft has adapters in float32 over it
    policy = policy_of(add_lora(model, autocast=half) if case.lora else model)
    reference = policy_of(make_model(case.family, seed=1, dtype=case.dtype)) if case.reference else None
    # The clip is one that bites: the norm must be that of all gradients, on all workers.
    settings = make_training(**({"learning_rate": 1e-3, "max_grad_norm": 0.5, "max_kl": 1e9} | case.settings))
    if world is not ALONE:
        policy.shard(world.mesh, case.sharding)
        if reference is not None:
            reference.shard(world.mesh, case.sharding)
    prepare_optimizer(policy, settings, None)
    updater = Updater(policy, settings, temperature=0.9, max_completion_length=10, reference=reference, world=world)
    gradients = note_gradients(policy.optimizer)
    for step in range(STEPS):
        groups = make_groups(step)
        if step == 0 and updater.old.must_remember(groups, STEPS):
            updater.old.remember(groups, [groups])
        updater.step(groups, silent_rollouts=2, silent_tokens=7)
        updater.old.noted.clear()  # the next step has other rollouts
    assert policy.optimizer is not None
    weights = {name: whole(parameter).double().numpy() for name, parameter in policy.trainable().items()}
    if world is not ALONE:  # what was gathered for the last look at the KL is given up
        assert all(isinstance(parameter, DTensor) for parameter in policy.model.parameters())
    held = sum(_own(tensor) for tensor in (*policy.model.parameters(), *policy.optimizer.tensors().values()))
    encoded = sum(map(len, world.share(make_groups(0), shares_prompts=policy.shares_prompts)))
    found = updater.tally.per_update
    return Outcome(found["policy_loss"], found["grad_norm"], gradients, updater.metrics(), weights, held, encoded)


def note_gradients(optimizer: Any) -> list[dict[str, np.ndarray]]:
    """Return a list to which whole gradients are added in every step, once all of its parts have been added up."""
    found, clip = [], optimizer.clip

    def noting(max_norm: float) -> float:
        # a copy, since clipping changes the gradients in place
        found.append({name: whole(master.grad).double().clone().numpy() for name, master in optimizer.masters.items()})
        return clip(max_norm)

    optimizer.clip = noting
    return found


def make_groups(step: int) -> list[list[tuple[Any, float]]]:
    """Groups of different sizes, whose log-probabilities were recorded by nobody."""
    generator = np.random.default_rng(step)
    return [
        [
            (
                make_rollout(
                    f"t{task}",
                    sample,
                    prompt=[3, 4, 5 + task],
                    completion=generator.integers(3, VOCABULARY, count).tolist(),
                    logprobs=generator.normal(-2.7, 0.2, count).tolist(),
                    policy="older",
                ),
                float(generator.normal()),
            )
            for sample, count in enumerate(counts)
        ]
        for task, counts in enumerate(LENGTHS)
    ]


def _own(tensor: torch.Tensor) -> int:
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).numel()


def train_all(names: Iterable[str], world: Any) -> dict[str, Outcome]:
    return {name: train(CASES[name], world) for name in names}


@pytest.fixture(scope="module")
def by_one() -> dict[str, Outcome]:
    return train_all(CASES, ALONE)


@pytest.fixture(scope="module")
def by_several(tmp_path_factory) -> dict[str, list[Outcome]]:
    """The outcomes of each of several workers."""
    found = {}
    for size, names in ((4, FOUR), (2, [name for name in CASES if name not in FOUR])):
        workers = run_together(size, tmp_path_factory.mktemp("world"), partial(train_all, names))
        found |= {name: [each[name] for each in workers] for name in names}
    return found


@pytest.mark.parametrize("name", CASES)
def test_several_workers_train_as_one(by_one, by_several, name):
    alone, together = by_one[name], by_several[name]
    dtype = CASES[name].dtype
    tolerance = TOLERANCE[dtype]
    for each in together:
        assert each.losses == pytest.approx(alone.losses, rel=tolerance, abs=tolerance)
        assert each.norms == pytest.approx(alone.norms, rel=tolerance, abs=tolerance)
        assert len(each.losses) == STEPS
        assert each.metrics == together[0].metrics  # all workers decide by the same numbers, bit for bit
        padded = {ENCODED: each.metrics[ENCODED]}  # rows of a part are padded to its longest, which fewer rows are less
        assert each.metrics == pytest.approx(alone.metrics | padded, rel=10 * tolerance, abs=10 * tolerance)
        for step, (own, other, norm) in enumerate(zip(each.gradients, alone.gradients, alone.norms, strict=True)):
            for weight, numbers in other.items():
                apart, size = own[weight] - numbers, np.linalg.norm(numbers)
                assert np.abs(apart).max() <= tolerance * max(1.0, norm), f"the gradient of {weight} in step {step}"
                # A tensor that has next to no part in the gradient is rounding alone.
                least = 1e-3 * tolerance * norm
                assert np.linalg.norm(apart) <= OF_GRADIENTS[dtype] * size + least, f"that of {weight} in step {step}"
        for weight, numbers in alone.weights.items():
            np.testing.assert_allclose(each.weights[weight], numbers, rtol=0, atol=OF_WEIGHTS[dtype])
        # 10 % for what does not divide by four
        assert each.held <= 1.1 / len(together) * alone.held, "a worker holds more than its part"
    assert sum(each.encoded for each in together) == alone.encoded == 9
    if len(together) == 4:  # three groups
        assert [each.encoded for each in together].count(0) == 1


class Counting(TorchDispatchMode):
    """Counts how often torch gathers tensors that were flattened, as FSDP2 does with those of a module."""

    gatherings = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.gatherings += "allgather_base" in str(func) or "all_gather_single" in str(func)
        return func(*args, **(kwargs or {}))


def count_gatherings(world: Any) -> dict[str, int]:
    """How often weights are gathered in an update of two parts for each worker, by how they are sharded."""
    found: dict[str, int] = {}
    for sharding in get_args(Sharding):
        policy, settings = policy_of(make_model("llama")), make_training(per_step_token_budget=12, max_kl=1e9)
        policy.shard(world.mesh, sharding)
        prepare_optimizer(policy, settings, None)
        updater = Updater(policy, settings, temperature=0.9, max_completion_length=10, reference=None, world=world)
        groups = [
            make_groups(0)[task] for task in (1, 0, 2)
        ]  # the KL is looked at in the first group, which is one part
        parts = world.level(updater.reading.parts(updater.reading.share(groups)))
        with Counting() as counting:
            updater.step(groups)
        found[sharding] = counting.gatherings
        found[f"{sharding} parts"] = len(parts)
    return found


def test_weights_are_gathered_in_every_pass_or_once_for_an_update(tmp_path):
    layers = make_model("llama").config.num_hidden_layers
    outer = 1 + layers  # embedding and head are gathered as one
    for found in run_together(2, tmp_path, count_gatherings):
        parts = found["full_shard parts"]
        assert parts == found["shard_grad_op parts"] > 1
        # A pass gathers all, and its backward pass the layers again. The KL afterwards is suspicious in the first
        # group, as no policy has sampled these rollouts: that is one pass more, and then one for each part.
        look = outer + parts * outer
        assert found["full_shard"] == parts * (outer + layers) + look
        assert found["shard_grad_op"] == outer + look
