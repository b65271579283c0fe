"""A round of training: what is encoded, what the gradients are, what becomes of each rollout, and how it stops."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlft.engines.transformers_engine import TransformersEngine
from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
from rlft.outcome import Failure
from rlft.training import logprobs, trainer
from rlft.training.batching import pack_tree, pad_rows
from rlft.training.logprobs import token_logprobs
from rlft.training.trainer import Round, prepare_optimizer, train_round
from rlft.types import Rewards, Rollouts
from tests.factories import (
    FirstCharacter,
    make_lora_policy,
    make_policy,
    make_reward,
    make_rollout,
    make_scored,
    make_task,
    make_training,
    save_base,
)


def train(policy, rollouts, rewards, reference=None, temperature=1.0, **settings):
    training = make_training(**settings)
    prepare_optimizer(policy, training, None)
    return train_round(
        policy,
        rollouts,
        rewards,
        training,
        Round(number=0, temperature=temperature, max_completion_length=4),
        reference=reference,
    )


def sampled(policy, totals, *, seed=0):
    """Rollouts that `policy` sampled itself, one task per list, scored by hand."""
    engine = TransformersEngine()
    engine.load_policy(policy)
    rows = []
    for number, group in enumerate(totals):
        task = make_task(f"t{number}", prompt=f"{number}+{number}=")
        rows += collect_rollouts(
            [task],
            FirstCharacter(),
            PolicyPlayer(policy, engine),
            SamplingSettings(temperature=1.0, max_completion_length=4, seed=seed),
            num_generations=len(group),
            round=0,
            label="train",
        )
    flat = [total for group in totals for total in group]
    rewards = tuple(make_reward(rollout, total) for rollout, total in zip(rows, flat, strict=True))
    return Rollouts(tuple(rows)), Rewards(rewards, weights={})


def weights(policy):
    return {name: p.detach().clone() for name, p in policy.model.named_parameters()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture
def encoded(monkeypatch):
    """Token ids of every rollout the trainer has a model encode, with and without gradient."""
    rows = {True: [], False: []}

    def spy(pairs, device):
        rows[torch.is_grad_enabled()] += [rollout.token_ids.tolist() for rollout, _ in pairs]
        return pack_tree(pairs, device)

    monkeypatch.setattr(logprobs, "pack_tree", spy)
    return rows


def test_the_ledger_adds_up_and_only_what_teaches_is_encoded(encoded):
    policy = make_policy()
    totals = [[1.0, 0.0, None, 0.0], [1.0, 1.0, 1.0], [0.0], [0.1 + 0.2, 0.3], [None], [1.0, 0.0]]
    rollouts, rewards = sampled(policy, totals)
    rows = [dataclasses.replace(rollout, truncated=False) for rollout in rollouts]
    rows[0] = dataclasses.replace(rows[0], truncated=True)
    rows[11] = dataclasses.replace(rows[11], error=Failure("", "engine died"))  # task t5: leaves its partner alone
    rollouts = Rollouts(tuple(rows))
    report = train(policy, rollouts, rewards, mask_truncated_completions=True)
    fates = [report.fates[rollout.rollout_id] for rollout in rollouts]
    assert fates == [
        "filtered:truncated",
        "trained",
        "errored:reward",
        "trained",
        *["filtered:no_variance"] * 3,
        "filtered:alone_in_group",
        *["filtered:no_variance"] * 2,
        "errored:reward",
        "errored:rollout",
        "filtered:alone_in_group",
    ]
    assert report.counts() == {"sampled": 13, "trained": 2, "filtered": 8, "errored": 3}
    assert sorted(encoded[True]) == sorted([rows[1].token_ids.tolist(), rows[3].token_ids.tolist()])
    assert (report.updates, report.stopped) == (1, None)


def test_a_round_that_teaches_nothing_changes_nothing(encoded):
    policy = make_policy()
    before = weights(policy)
    report = train(policy, *sampled(policy, [[1.0, 1.0], [0.0, 0.0]]))
    assert same(before, weights(policy))
    assert (report.updates, policy.metadata.update, report.stopped, report.metrics) == (
        0,
        0,
        None,
        {"perf/train_flops": 0.0},
    )
    assert encoded == {True: [], False: []}
    assert report.counts() == {"sampled": 4, "trained": 0, "filtered": 4, "errored": 0}


@given(st.lists(st.integers(2, 9), max_size=12), st.integers(1, 12))
def test_every_group_is_dealt_evenly(sizes, updates):
    groups = [[(number, member) for member in range(size)] for number, size in enumerate(sizes)]
    dealt = trainer._deal(groups, updates)
    assert sorted(pair for part in dealt for group in part for pair in group) == [p for group in groups for p in group]
    assert len(dealt) == min(sum(sizes), updates)
    totals = [sum(map(len, part)) for part in dealt]
    assert not totals or (min(totals) >= 1 and max(totals) - min(totals) <= 1)
    for number, size in enumerate(sizes):  # a group of 8 in 4 updates: 2 in each
        shares = [sum(len(group) for group in part if group[0][0] == number) for part in dealt]
        assert max(shares) - min(shares) <= 1
        assert sum(shares) == size


def test_updates_per_round(encoded):
    policy = make_policy()
    rollouts, rewards = sampled(policy, [[1.0, 0.0]] * 4)
    report = train(policy, rollouts, rewards, updates_per_round=2)
    assert (report.updates, policy.metadata.update) == (2, 2)
    tokens = [rollout.token_ids.tolist() for rollout in rollouts]
    assert sorted(encoded[True][:4]) == sorted(tokens[::2])  # one rollout of every group
    assert sorted(encoded[True][4:]) == sorted(tokens[1::2])
    # More updates than rollouts that teach: as many as there are.
    rollouts, rewards = sampled(policy, [[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    assert train(policy, rollouts, rewards, updates_per_round=3).updates == 2


def gradients(policy, rollouts, rewards, monkeypatch, reference=None, **settings):
    """Gradients of the round's one update, as the optimizer sees them; the weights stay."""
    training = make_training(max_grad_norm=1e9, **settings)
    prepare_optimizer(policy, training, None)
    found = {}

    def keep(*_):
        found.update({name: p.grad.clone() for name, p in policy.trainable().items()})

    monkeypatch.setattr(policy.optimizer, "step", keep)
    train_round(
        policy,
        rollouts,
        rewards,
        training,
        Round(number=0, temperature=1.0, max_completion_length=4),
        reference=reference,
    )
    return found


@pytest.mark.parametrize("loss_type", ["grpo", "bnpo", "dr_grpo", "dapo"])
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_micro_batches_give_the_gradient_of_the_whole(loss_type, rows, monkeypatch):
    policy, reference = make_policy(sharpness=2.0), make_policy(seed=3, sharpness=2.0)
    rollouts, rewards = sampled(policy, [[1.0, 0.0, 0.5, 0.0]] * 2)
    options = {"loss_type": loss_type, "beta": 0.05}
    whole = gradients(policy, rollouts, rewards, monkeypatch, reference, **options)
    budget = rows * max(len(rollout.token_ids) for rollout in rollouts)
    parts = gradients(policy, rollouts, rewards, monkeypatch, reference, per_step_token_budget=budget, **options)
    assert max(g.abs().max() for g in whole.values()) > 1e-3
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, rtol=0, atol=1e-6)


def test_the_first_gradient_is_the_policy_gradient(monkeypatch):
    # Ratio 1: d loss / d theta = -mean over tokens of A * d logprob, worked out here on plain unpadded rows.
    policy = make_policy(sharpness=2.0)
    rollouts, rewards = sampled(policy, [[1.0, 0.0, 0.0, 0.0]])
    found = gradients(policy, rollouts, rewards, monkeypatch, scale_rewards="none")
    policy.model.zero_grad()
    loss, tokens = 0.0, 0
    for rollout, advantage in zip(rollouts, [0.75, -0.25, -0.25, -0.25], strict=True):
        ids = torch.tensor([rollout.token_ids.tolist()])
        logprobs = policy.model(ids).logits[0].log_softmax(-1)
        places = range(rollout.prompt_length, len(rollout.token_ids))
        loss = loss - advantage * sum(logprobs[i - 1, ids[0, i]] for i in places)
        tokens += len(places)
    (loss / tokens).backward()
    for name, parameter in policy.trainable().items():
        torch.testing.assert_close(found[name], parameter.grad, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("loss_type", "of"), [("dapo", "tokens"), ("grpo", "rollouts"), ("dr_grpo", "rollouts")])
def test_what_teaches_nothing_counts_in_the_mean(loss_type, of, monkeypatch):
    # The second group's loss is 0 in every token: it adds nothing to the sum, and its size to what is divided by.
    policy = make_policy(sharpness=2.0)
    rollouts, rewards = sampled(policy, [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    some = Rollouts(rollouts.rows[:4]), Rewards(rewards.rows[:4], weights={})
    alone = gradients(make_policy(sharpness=2.0), *some, monkeypatch, loss_type=loss_type)
    beside = gradients(policy, rollouts, rewards, monkeypatch, loss_type=loss_type)
    sizes = [1 if of == "rollouts" else int(rollout.loss_mask.sum()) for rollout in rollouts]
    share = sum(sizes[:4]) / sum(sizes)
    assert share < 1
    for name, gradient in alone.items():
        torch.testing.assert_close(beside[name], gradient * share, rtol=1e-5, atol=5e-8)


def test_training_makes_good_answers_likelier():
    policy = make_policy()
    rollouts, rewards = sampled(policy, [[1.0, 0.0, 0.0, 0.0]])
    report = train(policy, rollouts, rewards)
    after = pad_rows([(rollout, 0.0) for rollout in rollouts], policy.device)
    logprobs = token_logprobs(policy, after, 1.0).logprobs
    change = ((logprobs - after.logprobs) * after.mask).sum(-1)
    assert change[0] > 0.1
    assert report.metrics["sampling/sampling_logp_difference/max"] < 1e-5
    assert report.metrics["kl_update"] > 0


@pytest.mark.parametrize(
    ("off", "temperature", "stops"), [(0.059, 1.0, False), (0.061, 1.0, True), (0.061, 0.5, False)]
)
def test_an_engine_that_drifts_beyond_what_rounding_explains_stops_the_round(off, temperature, stops):
    # Rounding explains 0.02 in the mean of the canaries; three times that may be of other tokens, and twice as much at
    # temperature 0.5, which doubles all differences of logits.
    policy = make_policy()
    rollouts, rewards = sampled(policy, [[1.0, 0.0, 0.0, 0.0]])
    rows = [
        dataclasses.replace(row, logprobs=scored_at(policy, row, temperature) - np.float32(off) * row.loss_mask)
        for row in rollouts
    ]
    metrics = {"engine/logp_difference_limit": 0.02}
    before = [parameter.clone() for parameter in policy.model.parameters()]
    report = train(policy, Rollouts(tuple(rows), metrics=metrics), rewards, temperature=temperature)
    assert report.metrics["sampling/sampling_logp_difference/mean"] == pytest.approx(off, abs=1e-5)
    assert bool(report.stopped) is stops
    assert ("it did not sample with the policy's weights" in (report.stopped or "")) is stops
    kept = all(torch.equal(now, was) for now, was in zip(policy.model.parameters(), before, strict=True))
    assert kept is stops


def scored_at(policy, row, temperature):
    batch = pad_rows([(row, 0.0)], policy.device)
    found = token_logprobs(policy, batch, temperature, with_entropy=False).logprobs[0].detach().numpy()
    scored = row.logprobs.copy()
    scored[row.prompt_length :] = found[: len(scored) - row.prompt_length]
    return scored * row.loss_mask


def test_metrics_by_value():
    policy = make_policy()
    rollouts, rewards = sampled(policy, [[1.0, 0.0, 0.0, 0.0]])
    report = train(policy, rollouts, rewards, warmup_updates=4, learning_rate=1e-2)
    # An untrained model of 16 tokens is close to uniform: entropy near ln 16 = 2.77; no clipping at ratio 1.
    assert report.metrics["entropy"] == pytest.approx(math.log(policy.model.config.vocab_size), abs=0.05)
    assert report.metrics["learning_rate"] == pytest.approx(1e-2 / 4)
    assert report.metrics["clip_ratio/region_mean"] == 0
    assert "kl" not in report.metrics


def test_warm_up_counts_over_rounds():
    policy = make_policy()
    rates = [
        train(policy, *sampled(policy, [[1.0, 0.0]], seed=i), warmup_updates=2).metrics["learning_rate"]
        for i in range(3)
    ]
    assert rates == pytest.approx([0.005, 0.01, 0.01])


def test_a_rate_that_explodes_stops_and_says_why():
    policy = make_policy()
    rollouts, rewards = sampled(policy, [[1.0, 0.0], [1.0, 1.0]])
    report = train(policy, rollouts, rewards, learning_rate=100.0, max_kl=0.5)
    assert report.stopped is not None
    for word in ("KL", "max_kl", "learning_rate"):
        assert word in report.stopped
    assert report.counts() == {"sampled": 4, "trained": 0, "filtered": 4, "errored": 0}
    assert sorted(report.fates.values()) == ["filtered:no_variance"] * 2 + ["filtered:round_undone"] * 2


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_a_loss_that_is_no_number_stops_before_the_step(bad):
    policy = make_policy()
    rollouts, _ = sampled(policy, [[1.0, 0.0]])
    broken = np.array(rollouts.rows[0].logprobs)
    broken[-1] = bad  # -inf: the ratio is infinite, and a bad reward does not cap it
    stale = dataclasses.replace(rollouts.rows[0], logprobs=broken, policy="an older one")  # so its numbers count
    rows = (stale, rollouts.rows[1])
    swapped = tuple(make_reward(r, total) for r, total in zip(rows, (0.0, 1.0), strict=True))
    before = weights(policy)
    report = train(policy, Rollouts(rows), Rewards(swapped, weights={}))
    assert report.stopped is not None
    assert "update 1" in report.stopped
    assert same(before, weights(policy))
    assert (report.updates, policy.metadata.update) == (0, 0)


def test_gradients_of_a_stopped_round_are_not_carried_on(monkeypatch):
    policy, fresh = make_policy(), make_policy()
    rollouts, rewards = sampled(policy, [[1.0, 0.0]])
    for parameter in policy.trainable().values():
        parameter.grad = torch.full_like(parameter, 7.0)
    dirty = gradients(policy, rollouts, rewards, monkeypatch)
    clean = gradients(fresh, rollouts, rewards, monkeypatch)
    assert all(torch.equal(clean[name], dirty[name]) for name in clean)


def test_beta_needs_a_reference():
    policy = make_policy()
    rollouts, rewards = sampled(policy, [[1.0, 0.0]])
    with pytest.raises(ValueError, match="reference"):
        train(policy, rollouts, rewards, beta=0.1)


def test_beta_pulls_towards_the_reference():
    policy, reference = make_policy(sharpness=2.0), make_policy(seed=1, sharpness=2.0)
    rollouts, rewards = sampled(policy, [[1.0, 0.0, 0.0, 0.0]] * 2)
    kls = [train(policy, rollouts, rewards, reference, beta=100.0, learning_rate=1e-3).metrics["kl"] for _ in range(8)]
    assert kls[0] > 0
    assert kls[-1] < 0.7 * kls[0]


def test_an_adapter_is_its_own_reference(tmp_path, monkeypatch):
    base = save_base(tmp_path / "base", sharpness=2.0)
    policy, plain = make_lora_policy(base), make_lora_policy(base)
    rollouts, rewards = sampled(policy, [[1.0, 0.0, 0.0, 0.0]])
    first = train(policy, rollouts, rewards, beta=0.1)
    assert first.metrics["kl"] == pytest.approx(0, abs=1e-9)  # an adapter that is new changes nothing yet
    options = {"beta": 0.5, "loss_type": "grpo"}
    off = gradients(policy, rollouts, rewards, monkeypatch, None, **options)
    explicit = gradients(policy, rollouts, rewards, monkeypatch, plain, **options)
    assert max(g.abs().max() for g in off.values()) > 0
    for name, gradient in off.items():
        torch.testing.assert_close(gradient, explicit[name], rtol=0, atol=1e-6)
    assert all("lora" in name for name in policy.trainable())
    second = train(policy, rollouts, rewards, beta=0.1)
    assert second.metrics["kl"] > 1e-6


def test_a_new_optimizer_counts_from_nothing():
    policy = make_policy()
    policy.metadata = dataclasses.replace(policy.metadata, update=9)
    rollouts, rewards = sampled(policy, [[1.0, 0.0]])
    train(policy, rollouts, rewards)
    steps = {float(state["step"]) for state in policy.optimizer.adamw.state.values()}
    assert (policy.metadata.update, steps) == (1, {1.0})


def test_no_zero_advantage_group_hides_behind_its_task_id():
    # Rollouts of one task may lie apart; they are one group.
    a, b, c = make_rollout("a", 0), make_rollout("b", 0), make_rollout("a", 1)
    rewards = Rewards((make_reward(a, 1.0), make_reward(b, 1.0), make_reward(c, 0.0)), weights={})
    report = train(make_policy(), Rollouts((a, b, c)), rewards, max_kl=1e9)  # log-probabilities made up
    assert list(report.fates.values()) == ["trained", "filtered:alone_in_group", "trained"]


def test_what_was_made_up_trains_as_well():
    rollouts, rewards = make_scored({"a": [1.0, 0.0], "b": [0.0, 0.0]})
    assert train(make_policy(), rollouts, rewards, max_kl=1e9).counts()["trained"] == 2


def test_rounding_in_bfloat16_clips_nothing():
    # The policy does not move: every later ratio is 1 as well, however narrow the bounds of a sequence are.
    policy = make_policy(sharpness=3.0)
    policy.model.to(torch.bfloat16)
    rollouts, rewards = sampled(policy, [[1.0, 0.0, 0.0, 0.0]] * 4)
    options = {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 1e-6, "learning_rate": 1e-20}
    report = train(policy, rollouts, rewards, updates_per_round=2, **options)
    assert report.updates == 2
    assert report.metrics["clip_ratio/region_mean"] == 0


def test_a_rollout_without_a_sampled_token_stops_nothing():
    rollouts, rewards = sampled(make_policy(), [[1.0, 0.0, 0.0, 0.0]] * 2)
    empty = [dataclasses.replace(r, loss_mask=np.zeros_like(r.loss_mask)) for r in rollouts]
    some = train(make_policy(), Rollouts((empty[0], *rollouts.rows[1:])), rewards)
    none = train(make_policy(), Rollouts(tuple(empty)), rewards)
    assert (some.stopped, none.stopped) == (None, None)
    assert "kl_update" in some.metrics


def test_rollouts_of_a_policy_that_has_moved_on_are_not_fresh():
    policy = make_policy()
    rollouts, rewards = sampled(policy, [[1.0, 0.0, 0.0, 0.0]] * 2)
    first = train(policy, rollouts, rewards, learning_rate=0.05)
    again = train(policy, rollouts, rewards, learning_rate=0.05)
    assert first.metrics["clip_ratio/region_mean"] == 0
    assert again.metrics["clip_ratio/region_mean"] > 0


def test_a_prompt_without_tokens_is_refused():
    rollouts, rewards = make_scored({"a": [1.0, 0.0]}, prompt=[])
    with pytest.raises(ValueError, match="no prompt"):
        train(make_policy(), rollouts, rewards)


def test_scores_of_the_only_turn_teach_what_the_same_rewards_of_the_attempts_do():
    scores = {"t0": [1.0, 0.0, 0.0], "t1": [0.0, 1.0, 0.5]}
    rollouts, rewards = make_scored(scores)
    rows = [dataclasses.replace(row, total=0.0, parts={}, steps={"turn": (row.total,)}) for row in rewards]
    of_turns = Rewards(tuple(rows), {}, step_weights={"turn": 1.0})
    whole, stepwise = make_policy(), make_policy()
    reports = [
        train(whole, rollouts, rewards, max_kl=1e9),
        train(stepwise, rollouts, of_turns, max_kl=1e9),
    ]
    assert reports[0].metrics["grad_norm"] == pytest.approx(reports[1].metrics["grad_norm"], rel=1e-6)
    for ours, theirs in zip(stepwise.model.parameters(), whole.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
    assert {fate for report in reports for fate in report.fates.values()} == {"trained"}
