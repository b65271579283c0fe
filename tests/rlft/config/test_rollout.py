"""rlft.config.rollout: how long a conversation may be."""

import pytest

from rlft.config.rollout import EngineSettings


@pytest.mark.parametrize(
    ("engine", "vllm", "model", "context"),
    [
        ("transformers", 64, 128, 128),  # vLLM's room is not asked for
        ("vllm", 64, 128, 64),
        ("vllm", 256, 128, 128),
        ("vllm", None, 128, 128),
        ("auto", 64, 128, 64),  # it may become vLLM
        ("vllm", 64, None, 64),
        ("vllm", None, None, None),
    ],
)
def test_a_conversation_has_what_the_model_reads_or_less_where_vllm_has_less_room(engine, vllm, model, context):
    settings = EngineSettings.model_validate({"engine": engine, "vllm": {"max_model_len": vllm}})
    assert settings.context_length(model) == context
