"""Which steps belong to a round of training."""

from __future__ import annotations

import pytest

from mlops.runtime.tags import round_of
from mlops.tracking.address import tracking_address


@pytest.mark.parametrize(
    ("step", "number"),
    [
        ("generate_rollouts_r000", 0),
        ("score_rewards_r007", 7),
        ("train_grpo_r1234", 1234),
        ("generate_rollouts_validation_r007", None),
        ("generate_rollouts_baseline", None),
        ("score_rewards_trained", None),
        ("initialize_policy", None),
    ],
)
def test_the_round_of_a_step(step, number):
    assert round_of(step) == number


def test_mlflow_of_the_home_is_where_the_home_lies_now(monkeypatch):
    monkeypatch.setenv("RLFT_TRACKING_URI", "sqlite:////now/mlflow.db")
    assert tracking_address("home") == "sqlite:////now/mlflow.db"
    assert tracking_address("https://mlflow.example.org") == "https://mlflow.example.org"
