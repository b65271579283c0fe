"""Code that was edited since its run began: the resume is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from zenml.client import Client

from mlops.runs import resuming as changed
from rlft.config import Config
from rlft.errors import RlftError

OLD = {"harness": "a" * 64, "reward": "b" * 64, "loss": "c" * 64}
ROUND = {
    "audit_rewards": {"fingerprints": OLD["harness"] + OLD["reward"]},
    "warm_start": {"environment_fingerprint": OLD["harness"] + OLD["reward"]},
    "generate_rollouts_r000": {"environment_fingerprint": OLD["harness"]},
    "score_rewards_r000": {"reward_fingerprint": OLD["reward"]},
    "train_grpo_r000": {"loss_fingerprint": OLD["loss"]},
}
TRAINED = {**ROUND, "evaluate_policy_trained": {}, "evaluate_policy_pass_at_k_trained": {}}
CHAMPION = {"fetch_champion": {"name": "m", "version": "3", "weights_hash": "w"}, "evaluate_policy_champion": {}}
DECIDED = {**TRAINED, **CHAMPION, "decide_promotion": {}}
CONFIG = Config.model_validate(
    {
        "name": "m",
        "tasks": {"source": "jsonl", "path": "t.jsonl"},
        "environment": {"name": "own.py:Own"},
        "policy": {"model": "x"},
    }
)


@pytest.fixture
def ask(monkeypatch):
    """Asks which steps are kept of an attempt with these steps, with code that has changed in some of its parts."""

    def kept(steps, *parts, commits=None):
        ids = {name: SimpleNamespace(config=SimpleNamespace(parameters=given)) for name, given in steps.items()}
        status = SimpleNamespace(is_successful=True)
        all_steps = [SimpleNamespace(name=name, id=name, status=status) for name in steps]
        monkeypatch.setattr(
            Client,
            "list_run_steps",
            lambda self, name=None, **_: [step for step in all_steps if name in (None, step.name)],
        )
        monkeypatch.setattr(Client, "get_run_step", lambda self, name: ids[name])
        labels = {"name": "a b", "commits": commits or {}}
        run = SimpleNamespace(id="r", name="a b-resumed-1", config=SimpleNamespace(parameters={"labels": labels}))
        monkeypatch.setattr(changed, "attempts_of", lambda _: [run])
        now = {**OLD, **dict.fromkeys(parts, "f" * 64)}
        return changed.steps_of_same_code(run, CONFIG, now)

    return kept


def test_a_run_whose_code_is_the_same_keeps_what_it_has_but_for_the_champion(ask):
    assert ask(DECIDED) == set(TRAINED)


@pytest.mark.parametrize(
    ("steps", "part", "named"),
    [
        (ROUND, "harness", "the environment own.py:Own"),
        (ROUND, "reward", "the reward of own.py:Own"),
        (ROUND, "loss", "the loss dapo"),
        # Both are known of the audit alone, which comes before everything else that uses them.
        ({"audit_rewards": ROUND["audit_rewards"]}, "reward", "the reward of own.py:Own"),
        ({"warm_start": ROUND["warm_start"]}, "harness", "the environment own.py:Own"),
    ],
)
def test_what_is_left_to_do_with_edited_code_is_refused(ask, steps, part, named):
    with pytest.raises(RlftError) as refused:
        ask(steps, part)
    assert named in refused.value.what
    assert refused.value.where == "'a b'"
    assert "put the code back as it was, then resume" in refused.value.fix


def test_the_commit_that_holds_the_old_code_is_named_if_all_of_it_was_committed(ask):
    with pytest.raises(RlftError, match="began at commit 0123456789ab"):
        ask(ROUND, "harness", "reward", commits={"environment.name": "0123456789ab" + "0" * 28})
    with pytest.raises(RlftError) as refused:
        ask(ROUND, "loss", commits={"environment.name": "0" * 40, "training.loss_type": "0" * 40 + "-dirty"})
    assert "commit" not in refused.value.fix


def test_what_the_run_had_not_come_to_may_be_edited(ask):
    sampled = {name: given for name, given in ROUND.items() if name != "train_grpo_r000"}
    assert ask(sampled, "loss") == set(sampled)
    assert ask({"ingest_tasks": {}}, "harness", "reward") == {"ingest_tasks"}


def test_the_first_attempt_says_what_the_run_began_with(ask, monkeypatch):
    """A resume after an edit, by an earlier rlft, has stored other fingerprints."""
    of = {"first": [("score_rewards_r000", "b")], "second": [("score_rewards_r000", "x"), ("train_grpo_r000", "y")]}
    given = {"b": {"reward_fingerprint": "b"}, "x": {"reward_fingerprint": "x"}, "y": {"loss_fingerprint": "y"}}
    status = SimpleNamespace(is_successful=True)
    monkeypatch.setattr(
        Client,
        "list_run_steps",
        lambda self, pipeline_run_id, **_: [
            SimpleNamespace(name=name, id=id, status=status) for name, id in of[pipeline_run_id]
        ],
    )
    monkeypatch.setattr(
        Client, "get_run_step", lambda self, id: SimpleNamespace(config=SimpleNamespace(parameters=given[id]))
    )
    attempts = [SimpleNamespace(id="second"), SimpleNamespace(id="first")]  # the newest first
    assert changed.begun_with(attempts) == {"reward": "b", "loss": "y"}
