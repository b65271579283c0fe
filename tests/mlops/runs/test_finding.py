"""Which steps of an attempt a resume skips."""

from types import SimpleNamespace

import pytest
from zenml.client import Client

from mlops.registry.names import REGISTRATION
from mlops.runs.finding import finished_steps
from steps.promotion import register_policy

DONE = ["train_grpo_r000", "evaluate_policy_trained"]
CHAMPIONS = ["fetch_champion", "score_rewards_champion", "decide_promotion"]


@pytest.mark.parametrize(
    ("more", "skipped"),
    [
        ([], DONE),
        (CHAMPIONS, DONE),  # asked for again: another run may have become champion since
        ([*CHAMPIONS, REGISTRATION], [*DONE, *CHAMPIONS, REGISTRATION]),  # what is registered stays decided
    ],
)
def test_what_depends_on_the_champion_is_done_again_until_the_policy_is_registered(monkeypatch, more, skipped):
    steps = [SimpleNamespace(name=name, status=SimpleNamespace(is_successful=True)) for name in (*DONE, *more)]
    steps.append(SimpleNamespace(name="baseline", status=SimpleNamespace(is_successful=False)))
    monkeypatch.setattr(Client, "list_run_steps", lambda self, **_: steps)
    assert finished_steps(SimpleNamespace(id="x")) == set(skipped)


def test_the_last_step_has_the_name_that_is_looked_for():
    assert register_policy.name == REGISTRATION
