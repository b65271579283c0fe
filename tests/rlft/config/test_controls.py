"""Configs of older versions say with `evaluation.sft_control` what `controls` says now."""

from __future__ import annotations

from typing import get_args

import pytest

from rlft.config import Config, ControlName, ModelControl
from rlft.config.file import load_config
from rlft.errors import ConfigError
from tests.shipped import ROOT

OTHERS = [name for name in get_args(ControlName) if name != "sft"]
DEMO = ROOT / "configs" / "demo.yaml"


@pytest.mark.parametrize(
    ("given", "controls"),
    [
        ([], None),
        (["controls=[]"], []),
        (["controls=[sft]"], ["sft"]),
        (["controls=[few_shot]"], ["few_shot"]),
        (["evaluation.sft_control=true"], None),
        (["evaluation.sft_control=false"], OTHERS),
        (["evaluation.sft_control=false", "controls=[sft]"], []),
    ],
)
def test_an_older_setting_means_a_list(given, controls, caplog):
    assert load_config(DEMO, given).controls == controls
    old = any("sft_control" in each for each in given)
    assert ("evaluation.sft_control is now `controls`" in caplog.text) == old


def test_another_model_is_named_by_hub_name_or_folder():
    config = load_config(DEMO, ["controls=[sft, {model: Qwen/Qwen2.5-0.5B-Instruct, revision: main}]"])
    assert config.controls == ["sft", ModelControl(model="Qwen/Qwen2.5-0.5B-Instruct", revision="main")]
    assert config.other_model == config.controls[1]
    assert Config.model_validate(config.model_dump()) == config  # the pipeline gets it as a mapping
    assert load_config(DEMO, []).other_model is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("controls=[sfd]", "controls.0: 'sfd' is no control: use sft"),
        ("controls=[sft, {modell: a}]", "or {model: NAME} for another model"),
        ("controls=[{model: a, k: 4}]", "or {model: NAME} for another model"),
        ("controls=[[sft]]", "['sft'] is no control"),
        ("controls=[{model: 'openai:gpt@http://x'}]", "a model behind an address cannot be a control"),
        ("controls=[{model: ''}]", "controls.0"),
        ("controls=[{model: a}, {model: b}]", "leave one `model` in the list"),
    ],
)
def test_what_is_no_control_is_refused_with_the_way_out(given, said):
    with pytest.raises(ConfigError) as caught:
        load_config(DEMO, [given])
    assert said in str(caught.value)


def test_another_model_needs_an_engine_that_takes_it():
    server = "{engine: vllm_server, max_completion_length: 4, server: {addresses: [http://127.0.0.1:9]}}"
    with pytest.raises(ConfigError, match="sample the policy's own model alone"):
        load_config(DEMO, ["controls=[{model: a}]", f"rollout={server}"])
