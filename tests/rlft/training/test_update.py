"""Optimizer steps: gradients that do not depend on how a batch is cut, and no pass over a token that is not needed."""

import dataclasses
from itertools import groupby

import numpy as np
import pytest
import torch

from rlft.progress import Meter
from rlft.training import loss
from rlft.training import tally as limits
from rlft.training.batching import pack_tree, packed_tokens, pad_rows, split_tree
from rlft.training.loss import Whole
from rlft.training.losses import LOSSES
from rlft.training.tally import TrainingStopped
from rlft.training.trainer import Round, Updater, _deal, prepare_optimizer, train_round
from rlft.types import Rewards, Rollouts
from tests.factories import make_reward, make_rollout, make_training
from tests.rlft.models.small_models import (
    FAMILIES,
    OTHERS,
    VOCABULARY,
    add_lora,
    alone,
    make_model,
    make_small_policy,
    policy_of,
    tokens_read,
)

LENGTHS = [[1, 9, 4, 4], [6, 2, 5, 3]]  # of the completions, by task
PROMPTS = [[4, 5, 6], [7, 8, 9, 10, 11]]
ADVANTAGES = [[1.0, -0.5, 0.75, -1.25], [-0.3, 0.9, -1.0, 0.4]]
LOSS_TYPES = list(LOSSES)


def make_groups(policy, *, noise=0.0, holes=False, fresh=True):
    """Groups of (rollout, advantage) of random tokens, whose recorded log-probabilities are those of `policy`.

    `noise` is what they are off by; `holes` puts tokens of a tool in between; rollouts that are not `fresh` are of an
    older policy by their name.
    """
    generator = np.random.default_rng(0)
    groups = []
    for task, (prompt, counts, advantages) in enumerate(zip(PROMPTS, LENGTHS, ADVANTAGES, strict=True)):
        group = []
        for sample, (count, advantage) in enumerate(zip(counts, advantages, strict=True)):
            completion = generator.integers(3, VOCABULARY, count)
            mask = np.ones(count, dtype=bool)
            if holes and count > 3:
                mask[1:3] = False
            rollout = make_rollout(
                f"t{task}",
                sample,
                prompt=prompt,
                completion=completion,
                loss_mask=np.concatenate([np.zeros(len(prompt), dtype=bool), mask]),
                policy=policy.identity if fresh else "older",
            )
            group.append((recorded(rollout, policy, noise * generator.standard_normal(count)), advantage))
        groups.append(group)
    return groups


def recorded(rollout, policy, error):
    with torch.no_grad():
        own = alone(policy.model, rollout)[0].float().numpy() + error
    logprobs = np.concatenate([np.zeros(rollout.prompt_length), own]).astype(np.float32)
    return dataclasses.replace(rollout, logprobs=np.where(rollout.loss_mask, logprobs, 0).astype(np.float32))


def flat(groups):
    return [pair for group in groups for pair in group]


def make_updater(policy, reference=None, temperature=1.0, **settings):
    settings = {"max_kl": 1e9, "max_grad_norm": 1e9} | settings
    shipped = LOSSES.get(settings.get("loss_type", "dapo"))
    training = make_training(**((shipped.example if shipped else {}) | settings))
    prepare_optimizer(policy, training, None)
    return Updater(policy, training, temperature=temperature, max_completion_length=10, reference=reference)


def gradients(policy, groups, reference=None, *, silent=None, **settings):
    """Those that the optimizer is given in one update, whose step is not taken."""
    updater, changes = make_updater(policy, reference, **settings), policy.changes
    masters, found = policy.optimizer.masters, {}
    policy.optimizer.step = lambda rate: found.update({name: master.grad for name, master in masters.items()})
    updater.step(groups, **(silent or {}))
    policy.optimizer, policy.changes = None, changes
    return found


def assert_close(found, expected, tolerance=1e-6):
    assert found.keys() == expected.keys()
    assert max(g.abs().max() for g in expected.values()) > 1e-2
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=0, atol=tolerance)


def budget_for(groups, parts):
    """The largest budget that cuts these groups into so many parts."""
    return max(b for b in range(1, 80) if len(split_tree(flat(groups), b)) == parts)


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_any_number_of_parts_gives_the_gradient_of_the_whole(loss_type, level):
    policy, reference = make_small_policy("qwen3", sharpness=2.0), make_small_policy("qwen3", seed=1, sharpness=2.0)
    groups = make_groups(make_small_policy("qwen3", sharpness=2.2), noise=0.3, holes=True, fresh=False)
    options = {"loss_type": loss_type, "importance_sampling_level": level, "beta": 0.05}
    whole = gradients(policy, groups, reference, **options)
    for parts in (2, 5, 8):
        budget = budget_for(groups, parts)
        assert_close(gradients(policy, groups, reference, per_step_token_budget=budget, **options), whole)


def test_a_group_is_not_cut_where_no_budget_is_set(monkeypatch):
    policy = make_small_policy("qwen3")
    groups = make_groups(policy)
    sizes = [packed_tokens(group) for group in groups]
    monkeypatch.setattr("rlft.training.logprobs._CPU_TOKENS", max(sizes) - 1)
    parts = make_updater(policy).reading.parts(groups)
    assert [packed_tokens(part) for part in parts] == sizes  # each as a whole, its prompt once
    monkeypatch.setattr("rlft.training.logprobs._GPU_TOKENS", min(sizes) - 1)
    assert len(make_updater(policy).reading.parts(groups)) > len(groups)


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_packed_or_row_by_row_with_or_without_recomputing(family, lora):
    model = make_model(family, sharpness=2.0)
    policy = policy_of(add_lora(model) if lora else model)
    groups = make_groups(policy, noise=0.2, holes=True, fresh=False)
    assert policy.shares_prompts
    packed = gradients(policy, groups, temperature=0.7)
    recomputed = gradients(policy, groups, temperature=0.7, gradient_checkpointing=True, per_step_token_budget=20)
    policy.shares_prompts = False
    plain = gradients(policy, groups, temperature=0.7)
    plain_recomputed = gradients(policy, groups, temperature=0.7, gradient_checkpointing=True, per_step_token_budget=20)
    for other in (recomputed, plain, plain_recomputed):
        assert_close(other, packed, tolerance=1e-5)


def part_gradients(policy, groups, **settings):
    """By part, the gradients in the parameters' own type of a pass over it alone."""
    updater = make_updater(policy, **settings)
    count = sum(int(rollout.loss_mask.sum()) for rollout, _ in flat(groups))
    found = []
    for part in updater.reading.parts(groups):
        updater._backward(part, Whole(count, len(flat(groups))))
        found.append({name: p.grad for name, p in policy.trainable().items()})
        policy.model.zero_grad(set_to_none=True)
    policy.optimizer = None
    return found


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("family", ["qwen3", "gpt2"])  # the second ties its embeddings
@pytest.mark.slow
def test_gradients_of_parts_in_bfloat16_add_up_in_float32(family, lora, checkpointing):
    policy = make_small_policy(family, lora=lora, dtype=torch.bfloat16, sharpness=2.0)
    groups = make_groups(policy)
    settings = {"per_step_token_budget": budget_for(groups, 8), "gradient_checkpointing": checkpointing}
    parts = part_gradients(policy, groups, **settings)
    assert len(parts) == 8
    assert {g.dtype for part in parts for g in part.values()} == {torch.bfloat16}
    expected = {name: sum(part[name].double() for part in parts).float() for name in parts[0]}
    # each of the 7 sums is off by at most half of float32's 2^-23 of its largest term
    bound = {name: 8 * 2**-24 * sum(part[name].double().abs() for part in parts) for name in expected}
    found = gradients(policy, groups, **settings)
    assert {g.dtype for g in found.values()} == {torch.float32}
    assert all(((found[name] - g).abs() <= bound[name]).all() for name, g in expected.items())
    in_bfloat16 = {name: sum(part[name] for part in parts).float() for name in expected}
    largest = max(g.abs().max() for g in expected.values())
    assert max((in_bfloat16[name] - g).abs().max() for name, g in expected.items()) > 1e-3 * largest


def policy_gradient(policy, groups):
    """By independent rows: of -mean over tokens of advantage * log-probability, which is that of dapo at ratio 1."""
    policy.model.zero_grad(set_to_none=True)
    total, tokens = 0.0, 0
    for rollout, advantage in flat(groups):
        sampled = torch.from_numpy(rollout.loss_mask[rollout.prompt_length :])
        total = total - advantage * alone(policy.model, rollout)[0][sampled].sum()
        tokens += int(sampled.sum())
    (total / tokens).backward()
    found = {name: p.grad.clone() for name, p in policy.trainable().items()}
    policy.model.zero_grad(set_to_none=True)
    return found


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
@pytest.mark.slow
def test_the_first_gradient_is_the_policy_gradient(family):
    policy = make_small_policy(family, sharpness=2.0)
    assert policy.shares_prompts == (family in FAMILIES)
    groups = make_groups(policy, holes=True)
    expected = policy_gradient(policy, groups)
    for checkpointing in (False, True):
        found = gradients(policy, groups, gradient_checkpointing=checkpointing, per_step_token_budget=24)
        assert_close(found, expected, tolerance=1e-5)


def test_dropout_that_is_configured_is_not_used():
    policy = make_small_policy("gpt2", sharpness=2.0, attn_pdrop=0.5, resid_pdrop=0.5, embd_pdrop=0.5)
    policy.model.train()
    groups = make_groups(policy_of(make_model("gpt2", sharpness=2.0)))
    expected = policy_gradient(policy_of(make_model("gpt2", sharpness=2.0)), groups)
    for checkpointing in (False, True):
        assert_close(gradients(policy, groups, gradient_checkpointing=checkpointing), expected, tolerance=1e-5)


def ready(policy):
    """What is found out once, by reading a few tokens, is found out before anyone counts."""
    assert policy.shares_prompts
    assert policy.split.body is not None
    return policy


def check_tokens(groups):
    """Tokens that are read after an update to see how far it went."""
    return pack_tree(flat(limits._some(groups, 1 / 16)), torch.device("cpu")).token_ids.numel()


def test_fresh_rollouts_are_read_once_and_their_ratio_is_one(monkeypatch):
    policy = ready(make_small_policy("qwen3", sharpness=2.0))
    groups = make_groups(policy, noise=0.5)  # an engine whose numbers are off: they are not the old policy's
    seen = []

    def spy(part, *rest):
        seen.append(torch.equal(part.logprobs, part.old_logprobs) and not part.old_logprobs.requires_grad)
        return policy_loss(part, *rest)

    policy_loss = loss.policy_loss
    monkeypatch.setattr(loss, "policy_loss", spy)
    updater = make_updater(policy, epsilon=1e-9, per_step_token_budget=20, importance_sampling_correction="token_mask")
    read = tokens_read(policy.model)
    updater.step(groups)
    parts = [pack_tree(part, policy.device).token_ids.numel() for part in split_tree(flat(groups), 20)]
    # The noise alone is a KL that is suspicious on a few tokens, so all are measured after the step.
    without = [check_tokens(groups), *parts]
    assert read == [*[(True, size) for size in parts], *[(False, size) for size in without]]
    assert len(parts) > 1
    assert all(seen)
    assert [updater.metrics()[f"clip_ratio/{name}_mean"] for name in ("low", "high", "region")] == [0, 0, 0]


def run(policy, groups, reference=None, age=0, **settings):
    """A round over groups, whose advantages are handed in as rewards."""
    training = make_training(**({"max_kl": 1e9, "scale_rewards": "none"} | settings))
    prepare_optimizer(policy, training, None)
    rows = tuple(rollout for rollout, _ in flat(groups))
    rewards = tuple(make_reward(rollout, advantage) for rollout, advantage in flat(groups))
    return train_round(
        policy,
        Rollouts(rows),
        Rewards(rewards, weights={}),
        training,
        Round(number=0, temperature=1.0, max_completion_length=10, age=age),
        reference=reference,
    )


def test_a_policy_far_from_its_reference_is_pulled_back_by_groups_that_are_solved():
    policy, reference = ready(make_small_policy("qwen3")), make_small_policy("qwen3")
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.mul_(1.5)
    solved = [[(rollout, 1.0) for rollout, _ in group] for group in make_groups(policy)]
    kls = []
    for _ in range(5):
        report = run(policy, solved, reference, beta=1.0, learning_rate=2e-3)
        assert (report.updates, set(report.fates.values())) == (1, {"trained:kl_only"})
        kls.append(report.metrics["kl"])
    assert kls[-1] < kls[1] < kls[0]
    assert kls[-1] < 0.5 * kls[0]
    assert run(policy, solved, beta=0.0).updates == 0


@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_a_policy_that_is_its_reference_is_not_moved_by_solved_groups(family):
    # rounding of the one and not of the other would be a gradient of 1e-7, which AdamW makes a step of its whole rate
    policy, reference = ready(make_small_policy(family)), make_small_policy(family)
    before = {name: p.detach().clone() for name, p in policy.model.named_parameters()}
    solved = [[(rollout, 1.0) for rollout, _ in group] for group in make_groups(policy)]
    report = run(policy, solved, reference, beta=0.5, learning_rate=1e-3)
    assert (report.metrics["grad_norm"], report.metrics["kl"]) == (0, 0)
    assert all(torch.equal(before[name], p) for name, p in policy.model.named_parameters())


def test_groups_that_teach_nothing_are_not_read():
    policy = ready(make_small_policy("qwen3"))
    first, second = make_groups(policy)
    level = [(rollout, 0.5) for rollout, _ in second]  # all rewards equal
    read = tokens_read(policy.model)
    report = run(policy, [first, level], learning_rate=1e-6)
    # the prompt of 3 and, of completions of 1, 9, 4 and 4, all but the last tokens
    assert read[0] == (True, 3 + 0 + 8 + 3 + 3)
    assert read[1:] == [(False, check_tokens([first]))]
    assert sorted(report.fates.values()) == ["filtered:no_variance"] * 4 + ["trained"] * 4
    read.clear()
    run(policy, [level])
    assert read == []


CORRECTED = {"importance_sampling_correction": "token_truncate"}


@pytest.mark.parametrize(
    ("settings", "made", "with_gradient", "passes_without"),
    [
        ({}, {}, 1, 0),
        ({"num_iterations": 2}, {}, 2, 0),  # the engine's numbers are as good as a pass over all
        ({"updates_per_round": 2}, {}, 1, 0),
        ({}, {"fresh": False}, 1, 0),
        (CORRECTED, {}, 1, 0),  # one update: its own pass tells
        (CORRECTED, {"fresh": False}, 1, 0),
        ({**CORRECTED, "num_iterations": 2}, {"fresh": False}, 2, 1),
        ({**CORRECTED, "num_iterations": 2}, {}, 2, 1),
        ({"importance_sampling_correction": "sequence_mask", "updates_per_round": 2}, {}, 1, 1),
        ({}, {"dtype": torch.bfloat16}, 1, 0),
        ({"num_iterations": 2}, {"dtype": torch.bfloat16}, 2, 1),  # the engine's are rounded in another way
        (
            {"num_iterations": 2},
            {"dtype": torch.bfloat16, "fresh": False},
            2,
            0,
        ),  # else nothing would tell them from own ones
    ],
)
def test_how_often_every_token_is_read(settings, made, with_gradient, passes_without):
    policy = ready(make_small_policy("qwen3", sharpness=2.0, dtype=made.get("dtype", torch.float32)))
    groups = make_groups(policy, fresh=made.get("fresh", True))
    read = tokens_read(policy.model)
    report = run(policy, groups, learning_rate=1e-4, **settings)
    whole = sum(map(packed_tokens, groups))
    dealt = _deal(groups, settings.get("updates_per_round", 1))
    parts = sum(packed_tokens(group) for part in dealt for group in part)  # a prompt is read in every update
    assert sum(size for gradient, size in read if gradient) == with_gradient * parts
    checks = sum(map(check_tokens, dealt)) * settings.get("num_iterations", 1)
    assert sum(size for gradient, size in read if not gradient) == passes_without * whole + checks
    assert report.updates == settings.get("num_iterations", 1) * settings.get("updates_per_round", 1)


def capture_old(monkeypatch):
    """By update, what the loss is given as log-probabilities of the old policy, [rollouts, tokens]."""
    found = []

    def spy(part, *rest):
        found.append(part.old_logprobs.clone())
        return policy_loss(part, *rest)

    policy_loss = loss.policy_loss
    monkeypatch.setattr(loss, "policy_loss", spy)
    return found


def table(groups, values):
    """[rollouts, tokens] from what `values` gives of a rollout, zeros where nothing was sampled."""
    width = max(rollout.completion_length for rollout, _ in flat(groups))
    rows = torch.zeros(len(flat(groups)), width)
    for row, (rollout, _) in zip(rows, flat(groups), strict=True):
        mask = torch.from_numpy(rollout.loss_mask[rollout.prompt_length :])
        row[: len(mask)] = torch.where(mask, torch.as_tensor(values(rollout)), 0.0)
    return rows


def own_logprobs(policy, groups):
    with torch.no_grad():
        return table(groups, lambda rollout: alone(policy.model, rollout)[0])


def engine_logprobs(groups):
    return table(groups, lambda rollout: rollout.logprobs[rollout.prompt_length :])


def one_order(groups):
    """Rollouts in the order in which a part of the whole holds them."""
    (part,) = split_tree(flat(groups), 10_000)
    return [list(group) for _, group in groupby(part, key=lambda pair: pair[0].task_id)]


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("corrected", [False, True])
def test_the_old_policy_of_several_updates(corrected, fresh, monkeypatch):
    # with a correction it is the trainer's own before the first update, without one what the engine recorded
    policy = make_small_policy("qwen3", sharpness=2.0)
    groups = one_order(make_groups(policy, noise=0.2, holes=True, fresh=fresh))
    own, engine = own_logprobs(policy, groups), engine_logprobs(groups)
    assert (own - engine).abs().max() > 0.1
    old = capture_old(monkeypatch)
    run(policy, groups, num_iterations=3, learning_rate=1e-2, **(CORRECTED if corrected else {}))
    assert len(old) == 3
    first = own if fresh or corrected else engine  # fresh: of this very pass
    torch.testing.assert_close(old[0], first, rtol=0, atol=1e-5)
    for later in old[1:]:
        torch.testing.assert_close(later, own if corrected else engine, rtol=0, atol=1e-5)
    assert (own_logprobs(policy, groups) - own).abs().max() > 0.1


def test_rollouts_of_an_older_policy_keep_the_log_probabilities_they_came_with(monkeypatch):
    policy = make_small_policy("qwen3", sharpness=2.0)
    groups = one_order(make_groups(policy, noise=0.2, fresh=False))
    old = capture_old(monkeypatch)
    run(policy, groups)
    assert torch.equal(old[0], engine_logprobs(groups))


def test_rollouts_are_no_longer_fresh_after_an_update(monkeypatch):
    policy = make_small_policy("qwen3", sharpness=2.0)
    policy.metadata = dataclasses.replace(policy.metadata, weights_hash="abc")
    groups = one_order(make_groups(policy, noise=0.2))
    old = capture_old(monkeypatch)
    for _ in range(2):
        run(policy, groups)
    assert not torch.equal(old[0], engine_logprobs(groups))
    assert torch.equal(old[1], engine_logprobs(groups))


def test_old_log_probabilities_find_their_rollouts_in_any_part(monkeypatch):
    policy = make_small_policy("qwen3", sharpness=2.0)
    groups = make_groups(policy, noise=0.2, holes=True)
    updater = make_updater(policy, importance_sampling_correction="token_truncate", per_step_token_budget=20)
    updater.old.remember(groups, [groups])
    updater.count = 1  # as if the first update were over
    own = dict(zip([r.rollout_id for r, _ in flat(groups)], own_logprobs(policy, groups), strict=True))
    for part in ([flat(groups)[1], flat(groups)[6]], [flat(groups)[0]]):
        batch = pad_rows(part, policy.device)
        old = updater.old.of(part, batch, torch.zeros(batch.mask.shape), first=False)
        for row, (rollout, _) in zip(old, part, strict=True):
            torch.testing.assert_close(row, own[rollout.rollout_id][: len(row)], rtol=0, atol=1e-5)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_an_end_that_was_forced_is_as_if_it_were_not_there(loss_type):
    policy = make_small_policy("qwen3", sharpness=2.0)
    groups = make_groups(policy)

    def with_end(rollout, sampled):
        return dataclasses.replace(
            rollout,
            token_ids=np.append(rollout.token_ids, np.int32(1)),
            loss_mask=np.append(rollout.loss_mask, sampled),
            logprobs=np.append(rollout.logprobs, np.float32(-1.0 if sampled else 0.0)),
        )

    forced = [[(with_end(rollout, False), advantage) for rollout, advantage in group] for group in groups]
    drawn = [[(with_end(rollout, True), advantage) for rollout, advantage in group] for group in groups]
    without = gradients(policy, groups, loss_type=loss_type)
    assert all(torch.equal(g, without[name]) for name, g in gradients(policy, forced, loss_type=loss_type).items())
    found = gradients(policy, drawn, loss_type=loss_type)
    assert max((found[name] - g).abs().max() for name, g in without.items()) > 1e-2
    if loss_type == "dapo":
        assert_close(found, policy_gradient(policy, drawn), tolerance=1e-5)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_what_is_not_read_counts_in_the_mean(loss_type):
    # 34 tokens in 8 rollouts, and 2 rollouts with 17 tokens more: sums over tokens shrink to 34 / 51, means over
    # rollouts (and dr_grpo, whose rollouts all count as equally long) to 8 / 10
    policy = make_small_policy("qwen3", sharpness=2.0)
    groups = make_groups(policy)
    share = 34 / 51 if LOSSES[loss_type].divisor == "tokens" else 0.8
    alone_in_the_mean = gradients(policy, groups, loss_type=loss_type)
    found = gradients(policy, groups, loss_type=loss_type, silent={"silent_rollouts": 2, "silent_tokens": 17})
    assert_close(found, {name: share * gradient for name, gradient in alone_in_the_mean.items()})


def test_a_part_is_within_the_budget_also_when_it_only_measures():
    policy = ready(make_small_policy("qwen3", sharpness=2.0))
    groups = make_groups(policy)
    updater = make_updater(policy, per_step_token_budget=16, importance_sampling_correction="token_truncate")
    many = [
        [(dataclasses.replace(r, rollout_id=f"{r.rollout_id}-{i}"), a) for r, a in g] for i in range(20) for g in groups
    ]
    read = tokens_read(policy.model)
    updater.old.remember(many, [many])
    updater.step(many)
    assert max(size for _, size in read) <= 16
    checked = [size for _, size in read[-10:]]
    assert sum(checked) > 2 * 16, "more than one part of what is measured after the step"


@pytest.mark.parametrize("checkpointing", [False, True])
def test_an_adapter_switched_off_is_the_reference(checkpointing):
    base = policy_of(make_model("qwen3", sharpness=2.0))
    policy = policy_of(add_lora(make_model("qwen3", sharpness=2.0)))
    groups = make_groups(policy)
    options = {"beta": 0.3, "gradient_checkpointing": checkpointing}
    assert_close(gradients(policy, groups, **options), gradients(policy, groups, base, **options), tolerance=1e-5)


def test_the_model_is_left_as_it_was():
    policy = make_small_policy("qwen3")
    groups = make_groups(policy)
    before = policy.model.config._attn_implementation
    updater = make_updater(policy, max_kl=1e-12, gradient_checkpointing=True)
    with pytest.raises(TrainingStopped):
        updater.step(groups)
    broken = [[(dataclasses.replace(r, token_ids=r.token_ids + 99), a) for r, a in group] for group in groups]
    with pytest.raises(IndexError):
        updater.step(broken)
    assert policy.model.config._attn_implementation == before
    assert not any(module.training for module in policy.model.modules())
    assert not policy.model.is_gradient_checkpointing


def plain_metrics(policy, reference, groups, *, temperature, beta, epsilon):
    """All that a round of one dapo update reports, from independent rows and the formulas written out."""
    policy.model.zero_grad(set_to_none=True)
    pairs = flat(groups)
    count = sum(int(rollout.loss_mask.sum()) for rollout, _ in pairs)
    sums = dict.fromkeys(("loss", "entropy", "kl", "low", "high"), 0.0)
    differences = []
    for rollout, advantage in pairs:
        mask = torch.from_numpy(rollout.loss_mask[rollout.prompt_length :])
        new, entropy = (found[mask] for found in alone(policy.model, rollout, temperature))
        with torch.no_grad():
            ref = alone(reference.model, rollout, temperature)[0][mask]
        old = torch.from_numpy(rollout.logprobs[rollout.prompt_length :])[mask]  # an older policy's
        ratio = (new - old).exp()
        objective = torch.minimum(ratio * advantage, ratio.clamp(1 - epsilon, 1 + epsilon) * advantage)
        kl = (ref - new).exp() - (ref - new) - 1
        sums["loss"] = sums["loss"] + (beta * kl - objective).sum()
        sums["entropy"] += entropy.sum().item()
        sums["kl"] += kl.sum().item()
        sums["low"] += int(((ratio < 1 - epsilon) & (advantage < 0)).sum())
        sums["high"] += int(((ratio > 1 + epsilon) & (advantage > 0)).sum())
        differences.append((new - old).detach())
    loss = sums["loss"] / count
    loss.backward()
    gradient = torch.cat([p.grad.flatten() for p in policy.trainable().values()])
    policy.model.zero_grad(set_to_none=True)
    difference = torch.cat(differences)
    return {
        "policy_loss": loss.item(),
        "grad_norm": gradient.norm().item(),
        "learning_rate": 1e-2 / 4,
        "entropy": sums["entropy"] / count,
        "kl": sums["kl"] / count,
        "clip_ratio/low_mean": sums["low"] / count,
        "clip_ratio/high_mean": sums["high"] / count,
        "clip_ratio/region_mean": (sums["low"] + sums["high"]) / count,
        "sampling/sampling_logp_difference/mean": difference.abs().mean().item(),
        "sampling/sampling_logp_difference/max": difference.abs().max().item(),
    }, difference.exp()


@pytest.mark.parametrize("budget", [16, 16384])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_metrics_are_those_of_plain_code_over_the_stored_rollouts(temperature, budget):
    policy, reference = make_small_policy("qwen3", sharpness=2.0), make_small_policy("qwen3", seed=1, sharpness=2.0)
    groups = make_groups(policy, noise=0.5, holes=True, fresh=False)
    options = {"beta": 0.05, "epsilon": 0.05}
    expected, ratios = plain_metrics(policy, reference, groups, temperature=temperature, **options)
    updater = make_updater(policy, reference, temperature, warmup_updates=4, per_step_token_budget=budget, **options)
    updater.step(groups)
    found = updater.metrics()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-5), name
    for name in ("min", "mean", "max"):
        assert found[f"sampling/importance_sampling_ratio/{name}"] == pytest.approx(
            getattr(ratios, name)().item(), abs=1e-5
        )
    assert expected["clip_ratio/low_mean"] > 0
    assert expected["clip_ratio/high_mean"] > 0
    # how far the update went, on all rollouts as it went further than 0.02: e^d - 1 - d with d = new - recorded
    moved = []
    for rollout, _ in flat(groups):
        mask = torch.from_numpy(rollout.loss_mask[rollout.prompt_length :])
        with torch.no_grad():
            new = alone(policy.model, rollout, temperature)[0]
        moved.append((new - torch.from_numpy(rollout.logprobs[rollout.prompt_length :]))[mask])
    distance = torch.cat(moved)
    assert found["kl_update"] == pytest.approx((distance.exp() - 1 - distance).mean().item(), abs=1e-5)
    # Prompts of 3 and 5, and completions without their last token, which nobody reads.
    assert found["perf/tokens_of_sequences"] == 4 * 3 + (0 + 8 + 3 + 3) + 4 * 5 + (5 + 1 + 4 + 2)
    in_one = 3 + (0 + 8 + 3 + 3) + 5 + (5 + 1 + 4 + 2)
    assert found["perf/tokens_encoded"] == in_one if budget > 16 else in_one < found["perf/tokens_encoded"] < 58
    assert found.keys() == expected.keys() | {
        "kl_update",
        "perf/tokens_encoded",
        "perf/tokens_of_sequences",
        "sampling/effective_sample_ratio",
        "sampling/mean_weight",
    } | {f"sampling/importance_sampling_ratio/{name}" for name in ("min", "mean", "max")}


@pytest.mark.parametrize("families", [("qwen3", "gemma2"), ("gemma2", "qwen3"), ("qwen3", "mamba"), ("qwen3", "llama")])
def test_a_reference_is_read_in_its_own_way(families):
    # of one that packs and one that does not, each is read as it can be; a window of 4 tokens would not see a row whole
    policy, reference = (
        make_small_policy(family, sharpness=size) for family, size in zip(families, (2, 4), strict=True)
    )
    groups = make_groups(policy, noise=0.2, holes=True, fresh=False)
    options = {"beta": 0.5, "epsilon": 0.2}
    expected, _ = plain_metrics(policy, reference, groups, temperature=1.0, **options)
    updater = make_updater(policy, reference, **options)
    updater.step(groups)
    found = updater.metrics()
    assert expected["kl"] > 0.03
    for name in ("kl", "policy_loss", "grad_norm"):
        assert found[name] == pytest.approx(expected[name], rel=1e-4)


def test_the_ratio_of_trainer_and_engine_that_is_reported_is_the_one_that_was_used():
    policy = make_small_policy("qwen3", sharpness=2.0)
    groups = make_groups(policy, noise=1.0)
    ratios = (own_logprobs(policy, groups) - engine_logprobs(groups)).exp()
    rows = [row[: r.completion_length] for row, (r, _) in zip(ratios, flat(groups), strict=True)]
    ratios, weights = torch.cat(rows), torch.stack([row.prod() for row in rows])  # of tokens, and of whole rollouts
    assert ratios.max() > 1.5
    updater = make_updater(policy, importance_sampling_correction="token_truncate", importance_sampling_max=1.5)
    updater.step(groups)
    found, used = updater.metrics(), ratios.clamp(max=1.5)
    for name in ("min", "mean", "max"):
        value = getattr(used, name)().item()
        assert found[f"sampling/importance_sampling_ratio/{name}"] == pytest.approx(value, abs=1e-5)
    assert found["sampling/sampling_logp_difference/max"] == pytest.approx(ratios.log().abs().max().item(), abs=1e-5)
    share = weights.sum() ** 2 / (len(weights) * (weights**2).sum())
    assert found["sampling/effective_sample_ratio"] == pytest.approx(share.item(), abs=1e-5)
    assert share < 0.9
    assert found["sampling/mean_weight"] == pytest.approx(weights.mean().item(), rel=1e-4)
    assert found["sampling/capped_ratio"] == pytest.approx((ratios > 1.5).float().mean().item())


def test_a_round_of_another_policy_that_is_too_far_away_says_so():
    policy = make_small_policy("qwen3")
    for fresh, said in ((True, "lower training.learning_rate"), (False, "another policy sampled these rollouts")):
        updater = make_updater(policy, max_kl=1e-12)
        with pytest.raises(TrainingStopped, match=said):
            updater.step(make_groups(policy, fresh=fresh))


def test_only_the_first_update_is_compared_with_the_engine():
    policy = make_small_policy("qwen3", sharpness=2.0)
    groups = make_groups(policy)
    report = run(policy, groups, num_iterations=3, learning_rate=1e-2)
    assert report.metrics["sampling/sampling_logp_difference/max"] < 1e-5
    assert report.metrics["kl_update"] > 1e-3


def test_some_groups_are_taken_whole():
    # 12 rollouts of 4 sampled tokens, 16 in a group of 4: 1/16 of 48 tokens is 3, one group; 1/2 is 24, two.
    groups = [
        [(make_rollout(f"t{task}", i, prompt=[4] * 4, completion=[5] * 4), 0.0) for i in range(4)] for task in range(3)
    ]
    assert limits._some(groups, 1 / 16) == groups[:1]
    assert limits._some(groups, 1 / 2) == groups[:2]
    assert len(flat(limits._some(groups, 1.0))) == 12


def test_rollouts_without_a_sampled_token_measure_nothing():
    policy = make_small_policy("qwen3", sharpness=2.0)
    groups = make_groups(policy)
    silent = [[(dataclasses.replace(r, loss_mask=np.zeros_like(r.loss_mask)), a) for r, a in g] for g in groups]
    assert limits._some([silent[0], groups[1]], 0.01) == [groups[1]]
    updater = make_updater(policy)
    updater.step(silent)
    assert "kl_update" not in updater.metrics()
    assert updater.metrics()["grad_norm"] == 0


@pytest.mark.parametrize("correction", [CORRECTED, {}])
@pytest.mark.parametrize("updates", [1, 2])
def test_how_far_an_update_went_from_lagged_rollouts_is_measured_from_the_policy_before_the_round(updates, correction):
    # What sampled is off by a noise of 0.5, which is much further than one update goes.
    policy = ready(make_small_policy("qwen3", sharpness=2.0))
    groups = one_order(make_groups(policy, noise=0.5, fresh=False))
    before, mask = own_logprobs(policy, groups), pad_rows(flat(groups), policy.device).mask
    settings = {"updates_per_round": updates, "learning_rate": 1e-3, "max_kl": 1e-9, **correction}
    report = run(policy, groups, age=1, **settings)  # so small a bound has all tokens looked at
    assert report.stopped is not None
    assert "to the policy before the round after update 1 exceeds" in report.stopped
    assert "lower training.learning_rate" in report.stopped
    assert report.age == 1
    moved = (own_logprobs(policy, groups) - before)[mask].double()
    weights = (before - pad_rows(flat(groups), policy.device).logprobs)[mask].double().exp().clamp(max=1.0)
    assert 0.1 < (weights < 1).double().mean() < 0.9
    if updates == 1:  # of two, the first has half of the rollouts to look at
        expected = (weights * (moved.exp() - 1 - moved)).sum() / weights.sum()
        assert report.metrics["kl_update"] == pytest.approx(expected.item(), rel=1e-3)
    other = ready(make_small_policy("qwen3", sharpness=2.0))
    stopped = run(other, one_order(make_groups(other, noise=0.5, fresh=False)), **settings)
    assert "to the sampling policy" in stopped.stopped
    assert stopped.metrics["kl_update"] > 4 * report.metrics["kl_update"]


@pytest.mark.parametrize("iterations", [1, 2])
def test_ratios_of_lagged_rollouts_are_to_the_policy_before_the_round(monkeypatch, iterations):
    # Without weights the loss must not ask what sampled, so rollouts whose recorded log-probabilities are off by a
    # noise of 0.5 change the policy as those of its own do, whose ratios are 1 at the first update.
    changed = []
    for noise, age in ((0.0, 0), (0.5, 1)):
        policy = ready(make_small_policy("qwen3", sharpness=2.0))
        groups = one_order(make_groups(policy, noise=noise, fresh=not age))
        run(policy, groups, age=age, num_iterations=iterations, learning_rate=1e-3, max_kl=1e9)
        changed.append([weight.detach().clone() for weight in policy.model.parameters()])
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(*changed, strict=True))


def test_whoever_watches_sees_each_part_of_the_look_at_the_kl():
    policy, told = make_small_policy("llama"), []
    meter = Meter(lambda done, total, what, **_: told.append((done, what)), 16, "rollouts")
    updater = Updater(
        policy,
        make_training(per_step_token_budget=12),
        temperature=1.0,
        max_completion_length=10,
        reference=None,
        meter=meter,
    )
    groups = make_groups(policy)
    parts = updater.reading.parts(groups)
    told.clear()
    meter.add(3)
    updater.limits._distance(groups, 1.0)
    assert len(parts) > 1
    assert told == [(3, "rollouts")] * (1 + len(updater.reading.parts([[pair for group in groups for pair in group]])))
