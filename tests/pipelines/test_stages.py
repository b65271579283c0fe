"""What each stage's step is told: its result is cached under that."""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from pipelines import stages as module
from pipelines.beside import Ended, several_attempts
from pipelines.stages import Scored, Stages
from rlft.config import DistributedConfig
from rlft.config.file import load_config
from rlft.environments.fingerprints import EnvironmentFingerprints
from rlft.environments.workers.threads import SECONDS
from rlft.errors import WeightsRemovedError
from rlft.harness.attempt import Example, Examples
from tests.shipped import ROOT


@pytest.mark.parametrize("changed", ["harness", "reward"])
def test_the_audit_is_done_again_after_a_change_of_the_tools_or_of_the_reward(monkeypatch, changed):
    told = []
    monkeypatch.setattr(module, "audit_rewards", lambda *given: told.append(given[1:]))
    config = load_config(ROOT / "configs" / "demo.yaml", [])
    prints = {"harness": "a", "reward": "b"}
    for each in (prints, prints | {changed: "c"}):
        Stages(config, EnvironmentFingerprints(**each)).audit(None)
    before, after = told
    assert before != after


def test_a_round_is_trained_again_after_an_edit_of_the_loss(monkeypatch, tmp_path):
    told, file = [], tmp_path / "my_loss.py"
    monkeypatch.setattr(module, "train_grpo", lambda *given, id: told.append(given[4:]))
    config = load_config(ROOT / "configs" / "demo.yaml", [f"training={{loss_type: '{file}:Mine'}}"])
    stages = Stages(config, EnvironmentFingerprints("a", "b"))
    for low in (0.8, 0.8, 0.7):
        file.write_text(
            "from rlft.training.losses.clipped import Dapo\n\n\nclass Mine(Dapo):\n"
            f"    def bounds(self):\n        return {low}, 1.2\n"
        )
        stages.train(None, None, Scored(None, None), 0)
    first, same, edited = told
    assert first == same
    assert edited != first
    assert (edited[0], edited[2:]) == (first[0], first[2:])  # but for the fingerprint


def test_another_model_is_loaded_or_asked_before_training(monkeypatch):
    told = []
    monkeypatch.setattr(module, "initialize_policy", lambda *given, **named: told.append(given[1]) or ("policy", None))
    monkeypatch.setattr(module, "ask_model", lambda *given: told.append(given[1]) or "asked")

    def made(control):
        config = load_config(ROOT / "configs" / "demo.yaml", [f"controls=[{control}]", "evaluation.temperature=0.5"])
        return Stages(config, EnvironmentFingerprints("a", "b")).initialize_other(None)

    assert made("sft") is None
    assert made("{model: a, revision: main}") == "policy"
    assert made("{model: a, endpoint: 'http://127.0.0.1:9/v1', attempts: 2}") == "asked"
    loaded, asked = told
    assert (loaded.model, loaded.revision, loaded.lora) == ("a", "main", None)
    assert (asked.model, asked.endpoint, asked.attempts) == ("a", "http://127.0.0.1:9/v1", 2)


def test_an_evaluation_is_done_again_for_other_examples_in_the_prompt(monkeypatch):
    told = []
    monkeypatch.setattr(module, "generate_rollouts", lambda *given, id: told.append(given[3]))
    monkeypatch.setattr(module, "score_rewards", lambda *given, id: None)
    monkeypatch.setattr(module, "evaluate_policy", lambda *given, id: None)
    stages = Stages(load_config(ROOT / "configs" / "demo.yaml", []), EnvironmentFingerprints("a", "b"))
    one = Example(prompt=[{"role": "user", "content": "1+1="}], turns=[{"role": "assistant", "content": "2"}])
    for examples in (None, Examples(form="turns", shown=[one]), Examples(form="text", shown=[one])):
        stages.evaluate(None, None, ["test"], "control", examples)
    assert len({sampling.model_dump_json() for sampling in told}) == 3
    assert told[0].model_copy(update={"examples": told[1].examples}) == told[1]  # the same but for the examples


def test_no_evaluation_depends_on_how_training_draws_its_tasks(monkeypatch):
    told = []
    monkeypatch.setattr(module, "generate_rollouts", lambda *given, id: told.append((id, *given[2:])))
    monkeypatch.setattr(module, "score_rewards", lambda *given, id: told.append((id, *given[2:])))
    monkeypatch.setattr(module, "evaluate_policy", lambda *given, id: SimpleNamespace(load=lambda: None))
    drawn = ["training.curriculum=pass_rate", "training.max_num_gen_batches=3"]
    for overrides in ([], drawn):
        stages = Stages(load_config(ROOT / "configs" / "demo.yaml", overrides), EnvironmentFingerprints("a", "b"))
        stages.baseline(None, None)
        ended = SimpleNamespace(best=None, start=None, several_attempts=lambda *given: None)
        several_attempts(Ended(stages, None, ended, ended, None, ended))
        for splits in (["validation"], ["test", "gate", "off_distribution"]):
            stages.evaluate(None, None, splits, "trained")
    assert len(told) == 20
    assert told[:10] == told[10:]


def test_a_draw_is_sampled_again_after_a_change_of_the_reward_or_of_the_groups_and_not_of_the_learning_rate(
    monkeypatch,
):
    told = []
    monkeypatch.setattr(module, "generate_groups", lambda *given, id: told.append((id, *given[3:])) or (None, "known"))
    monkeypatch.setattr(module, "score_rewards", lambda *given, known, id: told.append((known, id)))
    prints = EnvironmentFingerprints("a", "b")

    def sampled(*overrides, prints=prints):
        told.clear()
        stages = Stages(load_config(ROOT / "configs" / "demo.yaml", list(overrides)), prints)
        assert stages.sample_draw(None, None, "draw", 7).draw == "draw"
        given, scored = told
        assert scored == ("known", "score_rewards_r007")  # what is scored already is not scored again
        return given

    before = sampled()
    assert before[0] == "generate_rollouts_r007"
    assert sampled("training.learning_rate=1e-5") == before
    for other in ("training.num_generations=8", "training.max_num_gen_batches=2", "reward.full=0.5"):
        assert sampled(other) != before
    assert sampled(prints=EnvironmentFingerprints("a", "c")) != before


@pytest.mark.parametrize(("chosen", "told"), [("null", None), ("token_mask", "token_mask")])
def test_training_is_told_the_age_of_rollouts_and_weighs_them_only_as_the_settings_say(monkeypatch, chosen, told):
    given = {}
    monkeypatch.setattr(module, "train_grpo", lambda *args, id: given.update({args[6].age: args[4]}))
    settings = [f"training.importance_sampling_correction={chosen}", "training.lag=1"]
    stages = Stages(load_config(ROOT / "configs" / "demo.yaml", settings), EnvironmentFingerprints("a", "b"))
    for age in (0, 1):
        stages.train(None, None, Scored(None, None, age=age), 0)
    assert {age: each.importance_sampling_correction for age, each in given.items()} == {0: told, 1: told}


def test_a_round_does_not_depend_on_where_or_how_long_its_trainers_are_waited_for(monkeypatch):
    def told(settings: str):
        given = []
        monkeypatch.setattr(module, "train_grpo", lambda *args, **named: given.append((args, named)))
        config = load_config(ROOT / "configs" / "demo.yaml", [f"distributed={settings}"])
        Stages(config, EnvironmentFingerprints("a", "b")).train("policy", "start", Scored("rollouts", "rewards"), 0)
        return given[0]

    two = told("{engine: ray, trainers: 2}")
    assert told("{engine: ray, trainers: 2, address: 'team:6379', timeout_seconds: 99}") == two
    assert two[1]["distributed"] == DistributedConfig(engine="ray", trainers=2)
    for other in ("{engine: ray, trainers: 3}", "{engine: ray, trainers: 2, sharding: shard_grad_op}"):
        assert told(other) != two
    # One trainer is the run's own process.
    assert told("{engine: ray, trainers: 1, address: auto}") == told("null") != two


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["training.beta=0"], (None, True)),
        (["training.beta=0.1"], ("start", True)),
        (["distributed={engine: ray, trainers: 1}"], (None, True)),
        (["distributed={engine: ray, trainers: 2}"], (None, False)),
    ],
)
def test_what_a_round_needs_is_made_known_where_it_is_trained_while_the_next_one_is_sampled(monkeypatch, changes, told):
    given, future = [], SimpleNamespace(running=lambda: True, result=lambda: ("trained", "report"))

    def beside(progress, reference, *, here):
        given.append((reference, here))
        return nullcontext(SimpleNamespace(may_train=threading.Event(), has_begun=has_begun))

    has_begun = SimpleNamespace(wait=lambda seconds: begun.append(seconds) or len(begun) == 2)
    monkeypatch.setattr(module, "train_grpo", SimpleNamespace(submit=lambda *args, **named: future))
    runtime = SimpleNamespace(policies=SimpleNamespace(beside=beside))
    monkeypatch.setattr(module, "shared_runtime", lambda: runtime)
    config = load_config(ROOT / "configs" / "demo.yaml", ["training.lag=1", *changes])
    stages = Stages(config, EnvironmentFingerprints("a", "b"))
    begun, turns = [], []

    def sample():
        assert len(begun) == 2  # nothing else is started before the step that trains is
        turns.append(sys.getswitchinterval())
        return "sampled"

    done = stages.train_beside("policy", "start", Scored("rollouts", "rewards"), 0, sample)
    assert done == ("trained", "report", "sampled")
    assert turns == [pytest.approx(SECONDS)]  # work in Python does not keep the training waiting
    assert given == [told]


@pytest.mark.parametrize("trains", [True, False])
def test_sampling_that_fails_is_the_error_once_the_training_beside_it_has_ended(monkeypatch, caplog, trains):
    may_train, ended = threading.Event(), []

    def wait():
        ended.append(may_train.is_set())  # else it waits for ever
        if not trains:
            raise OSError("no room")

    monkeypatch.setattr(
        module,
        "train_grpo",
        SimpleNamespace(submit=lambda *args, **named: SimpleNamespace(running=lambda: False, wait=wait)),
    )
    beside = nullcontext(SimpleNamespace(may_train=may_train))
    policies = SimpleNamespace(beside=lambda progress, reference, here: beside)
    monkeypatch.setattr(module, "shared_runtime", lambda: SimpleNamespace(policies=policies))
    stages = Stages(load_config(ROOT / "configs" / "demo.yaml", ["training.lag=1"]), EnvironmentFingerprints("a", "b"))
    sample = Mock(side_effect=ConnectionError("nobody answers"))
    with pytest.raises(ConnectionError, match="nobody answers"):
        stages.train_beside("policy", "start", Scored("rollouts", "rewards"), 0, sample)
    assert ended == [True]
    assert ("that round could not be trained either: no room" in caplog.text) is not trains


def test_weights_that_policy_keep_has_removed_are_no_failure_to_tell_of(monkeypatch, caplog):
    waited, may_train = Mock(), threading.Event()
    monkeypatch.setattr(
        module,
        "train_grpo",
        SimpleNamespace(submit=lambda *args, **named: SimpleNamespace(running=lambda: False, wait=waited)),
    )
    policies = SimpleNamespace(beside=lambda *_, here: nullcontext(SimpleNamespace(may_train=may_train)))
    monkeypatch.setattr(module, "shared_runtime", lambda: SimpleNamespace(policies=policies))
    stages = Stages(load_config(ROOT / "configs" / "demo.yaml", ["training.lag=1"]), EnvironmentFingerprints("a", "b"))
    sample = Mock(side_effect=WeightsRemovedError("removed", where="a", fix="b"))
    with pytest.raises(WeightsRemovedError):
        stages.train_beside("policy", "start", Scored("rollouts", "rewards"), 0, sample)
    assert may_train.is_set()
    assert caplog.text == ""


def test_a_round_that_is_sampled_and_trained_alike_with_and_without_lag_is_in_the_cache_for_both(monkeypatch):
    told = []
    monkeypatch.setattr(module, "train_grpo", lambda *given, id: told.append((id, given)))
    monkeypatch.setattr(module, "draw_tasks", lambda *given, id, **known: told.append((id, given, known)))
    monkeypatch.setattr(module, "generate_rollouts", lambda *given, id: told.append((id, given)))
    monkeypatch.setattr(module, "score_rewards", lambda *given, id: told.append((id, given)))
    for lag in (0, 1):
        config = load_config(ROOT / "configs" / "demo.yaml", [f"training.lag={lag}"])
        stages = Stages(config, EnvironmentFingerprints("a", "b"))
        stages.sample_round("policy", "tasks", 0)
        stages.draw("tasks", 0, None)
        stages.train("policy", "start", Scored("rollouts", "rewards"), 0)
    assert len(told) == 8
    assert told[:4] == told[4:]
