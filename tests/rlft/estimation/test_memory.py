"""Memory that runs out names the settings to lower, with values from the config at hand."""

from rlft.config.file import load_config
from rlft.estimation.machine import lower_settings, memory_error
from tests.e2e.conftest import TINY


def lowered(uses, *overrides, on_gpu=False):
    config = load_config(TINY, list(overrides))
    return {name: value for name, value, _ in lower_settings(uses, config, on_gpu=on_gpu)}


def test_updates_encode_fewer_tokens_at_once():
    assert lowered(["updates"], "training.per_step_token_budget=5000") == {
        "training.per_step_token_budget": 2500,
        "training.gradient_checkpointing": "true",
        "rollout.max_completion_length": 2,
    }
    assert lowered(["updates"], on_gpu=True)["training.per_step_token_budget"] == 8192  # null is 16,384 there
    on = ["training.gradient_checkpointing=true", "rollout.max_completion_length=1"]
    assert lowered(["updates"], *on) == {"training.per_step_token_budget": 1536}  # null is 3,072 on a CPU


def test_sampling_has_fewer_rollouts_at_once():
    # 8 tasks of 4 attempts each are 32: the batch of 256 is never full, and a half of it would change nothing
    assert lowered(["sampling"]) == {"rollout.batch_size": 16, "rollout.max_completion_length": 2}
    assert lowered(["sampling"], "rollout.batch_size=10")["rollout.batch_size"] == 5


def test_supervised_training_encodes_fewer_tokens_at_once_too():
    lower = {"training.per_step_token_budget": 1536, "training.gradient_checkpointing": "true"}
    assert lowered(["supervised"]) == lower
    on_gpu = lower | {"training.per_step_token_budget": 8192, "policy.dtype": "bfloat16"}
    assert lowered(["supervised"], on_gpu=True) == on_gpu


def test_a_control_that_samples_and_trains_is_told_both():
    assert list(lowered(["supervised", "sampling"])) == [
        "training.per_step_token_budget",
        "training.gradient_checkpointing",
        "rollout.batch_size",
        "rollout.max_completion_length",
    ]


def test_a_stage_that_needs_little_names_no_setting():
    assert lowered([], on_gpu=True) == {}
    assert lowered(["model"]) == {}
    assert lowered(["model"], on_gpu=True) == {"policy.dtype": "bfloat16"}


def test_the_sentence_is_a_command_and_names_the_values_of_now():
    said = "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 5368709120 bytes."
    error = memory_error("warm start", ["supervised"], load_config(TINY, []), "memory", said)
    assert str(error) == (
        f"warm start: this machine has too little memory: {said}\n"
        "  what to do: run it again with --set training.per_step_token_budget=1536 "
        "--set training.gradient_checkpointing=true (training.per_step_token_budget is 3072, "
        "training.gradient_checkpointing is false), which takes from the cache what these do not change; or free "
        "memory, then `rlft resume` goes on with the run"
    )
    assert error.exit_code == 1
    cuda = memory_error(
        "scores r000", [], load_config(TINY, []), "gpu", "CUDA out of memory. Tried to allocate 20.00 GiB."
    )
    assert str(cuda) == (
        "scores r000: the GPU has too little memory: CUDA out of memory. Tried to allocate 20.00 GiB.\n"
        "  what to do: free memory, then `rlft resume` goes on with the run"
    )
