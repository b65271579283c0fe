"""pipelines.conclusion: a control without a score is named with the step whose failures are in the cache."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipelines.conclusion import _ask_again


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("model", "choose_prompt_model"),
        ("few_shot", "choose_prompt_few_shot"),
        ("sft", "generate_rollouts_sft_control"),
    ],
)
def test_the_step_that_is_done_again_is_named(name, step):
    text = _ask_again(name, SimpleNamespace(resume="rlft resume r"))
    assert text == f"none of its attempts on `test` has a score; `rlft resume r --redo {step}` makes them again"
