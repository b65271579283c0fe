"""DPO: which attempts or rows are pairs, and what a round of them does. `tests/parity` compares it with TRL."""

from __future__ import annotations

import json

import pytest
import torch

from rlft.errors import TaskError
from rlft.training.algorithms import chosen_algorithm
from rlft.training.algorithms.dpo import iterate_pairs
from rlft.training.chosen_loss import loss_fingerprint
from rlft.training.logprobs import split_groups
from rlft.training.loss import Part, Whole
from rlft.training.trainer import Round, _deal, prepare_optimizer, train_round
from rlft.types import Rewards, Rollouts
from tests.factories import make_policy, make_reward, make_rollout, make_scored, make_training, user

ROWS = [
    {"prompt": "1+1=", "chosen": "2", "rejected": "3"},
    {"prompt": [user("2+2=")], "chosen": [{"role": "assistant", "content": "4"}], "rejected": "44"},
    {"prompt": "3+1=", "chosen": "4", "rejected": "1"},
]


def test_the_loss_by_value():
    # ratios to the reference: chosen 0.5 + 0.5 = 1 of 2 tokens, rejected -2 of 1; beta 0.5, so the rewards are 0.5, -1
    new, reference = torch.tensor([[-1.0, -1.0], [-3.0, 9.0]]), torch.tensor([[-1.5, -1.5], [-1.0, 5.0]])
    mask = torch.tensor([[True, True], [True, False]])

    def loss(**options):
        settings = make_training(algorithm="dpo", beta=0.5, **options)
        part = Part(new, new, torch.tensor([1.0, -1.0]), mask, ref_logprobs=reference)
        return chosen_algorithm(settings).loss(settings)(part, Whole(num_rollouts=4))

    # half of each, as the update has two pairs: -log sigmoid(1.5) = 0.201413, -log sigmoid(-1.5) = 1.701413
    report = loss()
    assert report.loss.item() == pytest.approx(0.201413 / 2, abs=1e-6)
    assert loss(label_smoothing=0.1).loss.item() == pytest.approx((0.9 * 0.201413 + 0.1 * 1.701413) / 2, abs=1e-6)
    # per token: 1 / 2 - (-2) = 2.5; (2.5 - 1 / (2 * 0.5))^2 = 2.25, and -log sigmoid(1.25) = 0.251929
    assert loss(loss_type="ipo").loss.item() == pytest.approx(2.25 / 2)
    assert loss(loss_type="sigmoid_norm").loss.item() == pytest.approx(0.251929 / 2, abs=1e-6)
    assert report.units == 1
    assert list(report.sums.values()) == [0.5, -1.0, 1.0, 1.5]


def test_the_first_of_the_best_and_of_the_worst_attempts_are_a_pair():
    totals = {"a": [0.5, 1.0, 0.0, 1.0, 0.0], "b": [1.0, 1.0], "c": [None, 0.2, 0.3], "d": [1.0, None]}
    settings = make_training(algorithm="dpo")
    plan = chosen_algorithm(settings).plan(*make_scored(totals), settings, make_policy(), 0)
    found = [[(rollout.rollout_id, advantage) for rollout, advantage in group] for group in plan.groups]
    assert found == [
        [("train-0-a-1", 1.0), ("train-0-a-2", -1.0)],
        [("train-0-c-2", 1.0), ("train-0-c-1", -1.0)],
    ]
    assert str(plan.fates["train-0-a-0"]) == str(plan.fates["train-0-b-0"]) == "filtered:not_chosen"
    assert str(plan.fates["train-0-c-0"]) == "errored:reward"
    assert [len(part) for part in _deal(plan.groups, 2, whole=True)] == [1, 1]
    policy = make_policy()
    assert split_groups(policy, plan.groups, 1) == plan.groups
    assert split_groups(policy, plan.groups, 1000) == [plan.groups[0] + plan.groups[1]]
    assert (
        chosen_algorithm(settings.model_copy(update={"mask_truncated_completions": True}))
        .plan(
            *make_scored(totals, truncated=True),
            settings.model_copy(update={"mask_truncated_completions": True}),
            policy,
            0,
        )
        .groups
        == []
    )


@pytest.fixture
def written(tmp_path):
    """A function that writes rows, and gives the file."""

    def write(*rows):
        file = tmp_path / "pairs.jsonl"
        file.write_text("\n\n".join(json.dumps(row) if isinstance(row, dict) else row for row in rows))
        return file

    return write


def test_rows_are_texts_or_messages(written):
    found = list(iterate_pairs(written(*ROWS)))
    assert [[message["content"] for side in pair for message in side] for pair in found] == [
        ["1+1=", "2", "3"],
        ["2+2=", "4", "44"],
        ["3+1=", "4", "1"],
    ]
    assert [message["role"] for side in found[0] for message in side] == ["user", "assistant", "assistant"]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([ROWS[0], {"prompt": "1", "chosen": "2"}], ":3"),
        (["{"], ":1"),
        ([{"prompt": "1", "chosen": [user("2")], "rejected": "3"}], ":1"),
        ([{"prompt": [], "chosen": "2", "rejected": "3"}], ":1"),
        ([], ""),
    ],
)
def test_a_row_that_is_no_pair_is_named(rows, line, written):
    file = written(*rows)
    with pytest.raises(TaskError) as caught:
        chosen_algorithm(make_training(algorithm="dpo", pairs=str(file))).check_files()
    assert caught.value.where == f"{file}{line}"


def test_an_edit_of_the_file_trains_anew(written):
    settings = make_training(algorithm="dpo", pairs=str(written(*ROWS)))
    before = loss_fingerprint(settings)
    written(*ROWS[1:])
    assert loss_fingerprint(settings) != before
    assert loss_fingerprint(make_training(algorithm="dpo")) not in (before, loss_fingerprint(make_training()))


def trained(rounds, **options):
    policy = make_policy(sharpness=2.0)
    settings = make_training(algorithm="dpo", tasks_per_round=2, learning_rate=2e-3, **options)
    rows = [make_rollout("t0", sample, completion=(5 + sample, 1)) for sample in range(2)]
    rewards = Rewards(tuple(make_reward(rollout, 1.0 - rollout.sample) for rollout in rows), weights={})
    prepare_optimizer(policy, settings, None)
    reports = [
        train_round(
            policy,
            Rollouts(tuple(rows)),
            rewards,
            settings,
            Round(number=number, temperature=1.0, max_completion_length=4),
            reference=make_policy(sharpness=2.0),
        )
        for number in range(rounds)
    ]
    assert [report.stopped for report in reports] == [None] * rounds
    return reports


def test_rounds_of_a_file_learn_its_pairs(written):
    # the first loss is log 2, as policy and reference are equal; three rows make one batch of two in an epoch
    first, *_, last = trained(12, pairs=str(written(*ROWS)))
    assert first.metrics["policy_loss"] == pytest.approx(0.693147, abs=1e-6)
    assert first.metrics["rewards/margins"] == pytest.approx(0.0, abs=1e-6)
    assert last.metrics["rewards/margins"] > 0.1
    assert set(first.fates.values()) == {"filtered:not_chosen"}
    assert first.updates == 1
    assert "sampling/mean_weight" not in first.metrics  # nobody has sampled these answers


def test_rounds_of_own_attempts_learn_to_tell_them_apart():
    first, *_, last = trained(8, max_kl=1e9)  # these tokens are not the policy's own
    assert first.metrics["policy_loss"] == pytest.approx(0.693147, abs=1e-6)
    assert last.metrics["rewards/accuracies"] == 1.0
    assert last.metrics["policy_loss"] < 0.6
    assert set(last.fates.values()) == {"trained"}
