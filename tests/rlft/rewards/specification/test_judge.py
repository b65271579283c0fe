"""rlft.rewards.specification.judge: where a judge is, and what its answers depend on."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from rlft.config import Config
from rlft.rewards.specification.judge import JudgeSettings, JudgeVllm
from tests.rlft.rewards.judges.judged import KIND

AWAY = {"endpoint": "http://127.0.0.1:1/v1", "model": "m"}
OWN = {"engine": "vllm", "model": "m"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": "m"}, "either `endpoint`"),
        ({**AWAY, "engine": "vllm"}, "either `endpoint`"),
        ({**AWAY, "revision": "main"}, "`revision` and `vllm` are for `engine: vllm`"),
        ({**AWAY, "vllm": {}}, "`revision` and `vllm` are for `engine: vllm`"),
        ({**OWN, "api_key": "env:KEY"}, "`api_key` is for an `endpoint`"),
        ({**OWN, "vllm": {"gpu_memory_utilization": 1.0}}, "less than 1"),
    ],
)
def test_it_is_at_one_place(given, said):
    with pytest.raises(ValidationError, match=said):
        JudgeSettings.model_validate(given)


def test_what_answers_depend_on_is_as_before_behind_an_address():
    away = JudgeSettings.model_validate(AWAY)
    assert away.scoring() == {**AWAY, "version": "", "votes": 1, "max_tokens": 512}
    # Nothing of a judge that rlft starts is in what is stored of it.
    assert not {"engine", "revision", "vllm"} & set(away.model_dump())
    assert away.place == AWAY["endpoint"]


def test_what_answers_depend_on_where_rlft_starts_it():
    own = JudgeSettings.model_validate({**OWN, "revision": "main"})
    precise = own.model_copy(update={"vllm": JudgeVllm(dtype="float32")})
    roomy = own.model_copy(update={"vllm": JudgeVllm(cache_gib=8.0, gpu_memory_utilization=0.5)})
    assert own.scoring() == {
        "engine": "vllm", "model": "m", "revision": "main", "dtype": "auto", "max_model_len": None, "version": "",
        "votes": 1, "max_tokens": 512,
    }  # fmt: skip
    assert precise.scoring() != own.scoring()
    assert roomy.scoring() == own.scoring()
    assert own.place == "a vLLM of this run"


def config_of(*shares, **more):
    """A config whose environments have judges with these shares of a GPU's memory."""
    tasks = {"source": "jsonl", "path": "rows.jsonl"}
    members = {
        f"m{place}": {
            "tasks": tasks,
            "reward": {"spec": {"criteria": KIND, "judge": {**OWN, "vllm": {"gpu_memory_utilization": share}}}},
        }
        for place, share in enumerate(shares)
    }
    return Config.model_validate({"name": "c", "policy": {"model": "any"}, "environments": members, **more})


def test_judges_leave_room_beside_the_policys_engine():
    assert config_of(0.5, 0.5).environments  # equal settings are one server: 0.5 + 0.4
    with pytest.raises(ValidationError, match=r"take 0\.6 of a GPU's memory, and the engine of the policy 0\.4"):
        config_of(0.6, 0.6)
    with pytest.raises(ValidationError, match=r"take 0\.7 of a GPU's memory"):
        config_of(0.3, 0.4)
    assert config_of(0.6, 0.6, policy={"model": "any", "device": "cpu"})  # there it means nothing
    assert config_of(0.6, 0.6, rollout={"engine": "transformers"})
