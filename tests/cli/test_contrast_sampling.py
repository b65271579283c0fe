"""How attempts at test tasks were sampled, and by which weights."""

from __future__ import annotations

from cli.contrasted import ways_of_sampling, weights_of
from rlft.types import EvaluationReport


def test_what_changes_the_attempts_is_a_way_of_sampling_and_what_changes_the_training_is_not():
    plain = ways_of_sampling({})
    assert plain["evaluation.temperature"] == 0.0  # the default, of a run that has not stored it
    for settings in (
        {"evaluation": {"temperature": 1.0}},
        {"evaluation": {"top_p": 0.5}},
        {"evaluation": {"top_k": 5}},
        {"evaluation": {"min_p": 0.1}},
        {"rollout": {"max_completion_length": 8, "vllm": {"max_model_len": None}}},
        {"rollout": {"vllm": {"max_model_len": 512}}},
        {"policy": {"chat_template": "chatml"}},
        {"harness": {"max_turns": 3}},
    ):
        assert ways_of_sampling(settings) != plain, settings
    for settings in (
        {"evaluation": {"temperature": 0, "num_generations": 4, "validate_every": 1}},  # 0 is 0.0
        {"rollout": {"temperature": 0.7, "batch_size": 8}},
        {"policy": {"model": "other"}},
        {"harness": {"lockstep": True, "processes": 2}},
        {"training": {"learning_rate": 1.0}},
    ):
        assert ways_of_sampling(settings) == plain, settings


def test_weights_are_their_hash_on_the_model_below():
    def weights(policy, **base):
        return weights_of(EvaluationReport("test", policy, 1, {}, {}), {"policy": base})

    assert weights("a" * 64, model="m") == weights("a" * 64, model="m")
    assert weights("a" * 64, model="m") != weights("a" * 64, model="n")  # a new adapter has the same bytes on both
    assert weights("a" * 64, model="m") != weights("b" * 64, model="m")
    assert weights("unsaved after 3 updates", model="m") == ""
