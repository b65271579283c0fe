"""How attempts at test tasks were sampled, and by which weights."""

from __future__ import annotations

from cli.contrasted import StoredRun, is_sampled_alike
from rlft.types import EvaluationReport

PLAIN = {
    "evaluation": {"temperature": 0.0, "top_p": 1.0, "num_generations": 1},
    "rollout": {"max_completion_length": 64, "temperature": 1.0, "vllm": {"max_model_len": None}},
    "policy": {"model": "one", "chat_template": None},
    "harness": {"max_turns": 1, "lockstep": False},
    "training": {"learning_rate": 0.1},
}


def run(**changes):
    sampled = {name: section | changes.get(name, {}) for name, section in PLAIN.items()}
    return StoredRun("r", None, {}, {}, {}, "f", EvaluationReport("test", "p", 1, {}, {}), sampled=sampled)


def test_what_changes_the_attempts_is_a_way_of_sampling_and_what_changes_the_training_is_not():
    for settings in (
        {"evaluation": {"temperature": 1.0}},
        {"evaluation": {"top_p": 0.5}},
        {"rollout": {"max_completion_length": 8}},
        {"rollout": {"vllm": {"max_model_len": 512}}},
        {"policy": {"chat_template": "chatml"}},
        {"harness": {"max_turns": 3}},
    ):
        assert not is_sampled_alike(run(), run(**settings)), settings
    for settings in (
        {"evaluation": {"temperature": 0, "num_generations": 4}},  # 0 is 0.0
        {"rollout": {"temperature": 0.7, "batch_size": 8}},
        {"policy": {"model": "other"}},
        {"harness": {"lockstep": True, "processes": 2}},
        {"training": {"learning_rate": 1.0}},
    ):
        assert is_sampled_alike(run(), run(**settings)), settings
