"""Rollouts of another policy: how they are known, and which correction they get."""

from __future__ import annotations

import pytest

from rlft.training.loss import CORRECTION, corrected, is_on_policy
from rlft.types import Rollouts
from tests.factories import make_rollout, make_training


def test_rollouts_are_the_policys_own_if_it_sampled_all_of_them():
    own, other = make_rollout(policy="aa"), make_rollout(policy="bb")
    assert is_on_policy(Rollouts((own, own)), "aa")
    assert not is_on_policy(Rollouts((own, other)), "aa")


def test_the_correction_is_the_chosen_one_else_the_one_that_is_given():
    assert corrected(make_training(), CORRECTION).importance_sampling_correction == "sequence_truncate"
    chosen = make_training(importance_sampling_correction="token_mask", importance_sampling_max=2.0)
    assert corrected(chosen, CORRECTION) is chosen
    assert corrected(make_training(), None).importance_sampling_correction is None
    with pytest.raises(ValueError, match="sequence_cut"):
        corrected(make_training(), "sequence_cut")


def test_the_other_settings_stay():
    settings = make_training(loss_type="dr_grpo", learning_rate=0.5)
    changed = corrected(settings, "token_truncate")
    assert changed.model_dump() == settings.model_dump() | {"importance_sampling_correction": "token_truncate"}
