"""The benchmark of common beginnings: all of its sides run, on the same tokens."""

import pytest

from benchmarks.beginnings import SIDES
from benchmarks.grpo_workload import Workload, make_prompts, write_model

pytestmark = pytest.mark.slow


def test_prompts_begin_alike_for_as_many_tokens_as_was_asked():
    prompts = make_prompts(Workload(prompt_tokens=12, common_tokens=8, groups=3, steps=1))
    assert len(prompts) == 6
    assert {prompt[:8] for prompt in prompts} == {prompts[0][:8]}
    assert len({prompt[8:] for prompt in prompts}) == 6


@pytest.mark.parametrize("side", SIDES)
def test_every_side_runs(tmp_path, side):
    workload = Workload(
        prompt_tokens=40,
        common_tokens=32,
        groups=64,
        group_size=1,
        completion_tokens=3,
        model="toy",
        lora=True,
        steps=1,
    )
    write_model(workload, tmp_path)
    assert SIDES[side](workload, tmp_path)["seconds"] > 0
