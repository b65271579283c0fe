"""What a config would run, read and ask, in lines that no text of the config can forge."""

from __future__ import annotations

import json

from rlft.config.file import load_config
from rlft.config.reach import asks_of
from tests.e2e.conftest import TINY


def lines(*overrides: str) -> list[str]:
    return asks_of(load_config(TINY, list(overrides)))


def test_a_config_of_rlft_alone_names_its_environment():
    assert lines() == ["environment rlft.environments.reasoning_gym:ReasoningGym"]


def test_all_that_a_config_can_name_is_told_with_its_place(tmp_path):
    own = tmp_path / "own.py"
    own.write_text("raise SystemExit  # it is not run")
    kwargs = {
        "gold_template": {"_target_": "subprocess:getoutput", "cmd": "env:A_KEY"},
        "more": [{"_target_": "builtins:eval", "code": "{env:B_KEY}"}],
        "rewards": [f"{own}:exact", "os:system"],
        "client": "tools.example/api",
        "sandbox": "none",
    }
    distributed = "distributed={engine: ray, trainers: 2, address: 'head.example:6379'}"
    changes = [f"environment={json.dumps({'name': f'{own}:Own', 'kwargs': kwargs})}", distributed]
    said = lines(*changes, f"training.loss_type={own}:loss", "policy.dtype=float32")
    assert said == [
        f"environment {own}:Own",
        f"loss {own}:loss",
        "call of subprocess:getoutput (environment.kwargs.gold_template._target_)",
        "call of builtins:eval (environment.kwargs.more[0]._target_)",
        f"code {own}:exact (environment.kwargs.rewards[0])",
        "code os:system (environment.kwargs.rewards[1])",
        "programs without a sandbox (environment.kwargs.sandbox)",
        f"file of code {own} (environment.name)",
        f"file of code {own} (training.loss_type)",
        f"file of code {own} (environment.kwargs)",
        "variable A_KEY (environment.kwargs.gold_template.cmd)",
        "variable B_KEY (environment.kwargs.more[0].code)",
        "address tools.example/api (environment.kwargs.client)",
        "address head.example:6379 (distributed.address), which gets Ray's token",
    ]


def test_a_specification_among_the_arguments_is_read_too():
    content = json.dumps({"sandbox": "none", "judge": {"endpoint": "http://judge.example:1/v1"}})
    kwargs = {"_specification_": content, "other": {"_specification_": "no JSON"}}
    said = asks_of(load_config(TINY).model_copy(update={"environment": _environment(kwargs)}))
    assert "programs without a sandbox (environment.kwargs._specification_.sandbox)" in said
    assert any(line.startswith("address http://judge.example:1/v1") for line in said)


def test_no_text_adds_a_line_or_steers_the_terminal():
    kwargs = {"x": {"_target_": "a:b\n    environment rlft.environments.mine:Harmless\x1b[2K"}}
    said = asks_of(load_config(TINY).model_copy(update={"environment": _environment(kwargs)}))
    assert said[1:] == [
        "call of a:b environment rlft.environments.mine:Harmless\\x1b[2K (environment.kwargs.x._target_)"
    ]


def _environment(kwargs):
    return load_config(TINY).environment.model_copy(update={"kwargs": kwargs})
