"""pipelines.showing: memory that runs out in a stage names the settings that the stage depends on."""

from __future__ import annotations

import pytest

from pipelines.showing import telling_memory, unshown
from rlft.config.file import load_config
from rlft.errors import MemoryShortError
from tests.e2e.conftest import TINY

OUT_OF_MEMORY = "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1024 bytes."


def test_memory_that_runs_out_names_the_settings_of_what_the_stage_uses():
    show = telling_memory(load_config(TINY, []), unshown)
    with pytest.raises(MemoryShortError) as told, show("rejection sampling control", "supervised", "sampling"):
        raise RuntimeError(OUT_OF_MEMORY)
    lower = "--set training.gradient_checkpointing=true --set rollout.batch_size=16"
    assert f"--set training.per_step_token_budget=1536 {lower}" in str(told.value)
    with pytest.raises(MemoryShortError) as told, show("decision"):
        raise RuntimeError(OUT_OF_MEMORY)
    assert "--set" not in str(told.value)


def test_other_errors_are_raised_as_they_are():
    with (
        pytest.raises(RuntimeError, match="other"),
        telling_memory(load_config(TINY, []), unshown)("policy", "model"),
    ):
        raise RuntimeError("other")
