"""Code that was edited since its run began: the resume is refused, unless nothing that uses the code is left to do."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from zenml.client import Client

from mlops.registry.client import NamedVersion
from mlops.runs import resuming as changed
from mlops.runs.resuming import Resumed
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
AGAIN = Resumed("a b-resumed-2", CONFIG, {}, {"tracking_uri": "sqlite:///:memory:"})
V3 = NamedVersion("m", "3", "w", None, "another")


@pytest.fixture
def ask(monkeypatch):
    """Asks which steps are kept of an attempt with these steps, with code that has changed in some of its parts."""

    def kept(steps, *parts, champion=None, damaged=(), commits=None):
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
        monkeypatch.setattr(changed, "current_champion", lambda *_: champion)
        monkeypatch.setattr(changed, "read_summary", lambda *_: SimpleNamespace(mlflow_run_id="own"))
        now = {**OLD, **dict.fromkeys(parts, "f" * 64)}
        return changed.steps_of_same_code(run, AGAIN, damaged, now)

    return kept


def test_a_run_whose_code_is_the_same_keeps_what_it_has_but_for_the_champion(ask):
    assert ask(DECIDED) == set(TRAINED)


@pytest.mark.parametrize(
    ("steps", "part", "named", "cached"),
    [
        (ROUND, "harness", "the environment own.py:Own", "the tasks and the base policy"),
        (ROUND, "reward", "the reward of own.py:Own", "the rollouts from before the first update"),
        (ROUND, "loss", "the loss dapo", "all from before the first update"),
        # Both are known of the audit alone, which comes before everything else that uses them.
        ({"audit_rewards": ROUND["audit_rewards"]}, "reward", "the reward of own.py:Own", "the base policy"),
        ({"warm_start": ROUND["warm_start"]}, "harness", "the environment own.py:Own", "the tasks"),
    ],
)
def test_what_is_left_to_do_with_edited_code_is_refused(ask, steps, part, named, cached):
    with pytest.raises(RlftError) as refused:
        ask(steps, part)
    assert named in refused.value.what
    assert "what is left of it would mix the two" in refused.value.what
    assert refused.value.where == "'a b'"
    assert "put the code back as it was, then resume" in refused.value.fix
    assert cached in refused.value.fix


def test_the_commit_that_holds_the_old_code_is_named_if_all_of_it_was_committed(ask):
    with pytest.raises(RlftError, match="began at commit 0123456789ab"):
        ask(ROUND, "harness", "reward", commits={"environment": "0123456789ab" + "0" * 28})
    with pytest.raises(RlftError) as refused:
        ask(ROUND, "loss", commits={"environment": "0" * 40, "loss": "0" * 40 + "-dirty"})
    assert "commit" not in refused.value.fix


def test_what_the_run_had_not_come_to_may_be_edited(ask):
    sampled = {name: given for name, given in ROUND.items() if name != "train_grpo_r000"}
    assert ask(sampled, "loss") == set(sampled)
    assert ask({"ingest_tasks": {}}, "harness", "reward") == {"ingest_tasks"}


def test_a_run_that_has_only_to_be_registered_may_be(ask):
    assert ask(TRAINED, "reward") == set(TRAINED)  # there was no champion, and there is none
    assert ask(DECIDED, "reward", champion=V3) == {*TRAINED, *CHAMPION}
    own = NamedVersion("m", "4", "w4", None, "own")
    assert ask(TRAINED, "reward", champion=own) == set(TRAINED)


@pytest.mark.parametrize("champion", [None, NamedVersion("m", "4", "w4", None, "another")])
def test_another_champion_would_be_evaluated_with_edited_code(ask, champion):
    with pytest.raises(RlftError, match="the evaluation of the champion, which is another one now, would mix"):
        ask(DECIDED, "harness", champion=champion)
    with pytest.raises(RlftError, match="the champion"):
        ask(TRAINED, "harness", champion=V3)


def test_pass_at_k_is_left_to_do(ask):
    with pytest.raises(RlftError, match="what is left of it"):
        ask({name: given for name, given in TRAINED.items() if "pass_at_k" not in name}, "harness")


def test_of_a_finished_run_steps_without_that_code_are_made_again(ask):
    finished = {**DECIDED, "register_policy": {}}
    for step in ("register_policy", "decide_promotion", "evaluate_policy_trained"):
        assert ask(finished, "reward", damaged=[step]) >= set(TRAINED)
    with pytest.raises(RlftError, match="train_grpo_r000 and what comes after it would mix"):
        ask(finished, "loss", damaged=["register_policy", "train_grpo_r000"])


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
