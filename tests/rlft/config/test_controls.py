"""Which controls a config names, another model among them, and what is none."""

from __future__ import annotations

import json

import pytest

from rlft.config import Config
from rlft.config.file import check_variables, load_config
from rlft.errors import ConfigError
from tests.shipped import ROOT

DEMO = ROOT / "configs" / "demo.yaml"


def test_another_model_is_named_by_hub_name_or_folder():
    config = load_config(DEMO, ["controls=[sft, {model: Qwen/Qwen2.5-0.5B-Instruct, revision: main}]"])
    assert [arm.name for arm in config.controls] == ["sft", "model"]
    assert (config.other_model.model, config.other_model.revision) == ("Qwen/Qwen2.5-0.5B-Instruct", "main")
    assert config.other_model == config.controls[1]
    assert Config.model_validate(config.model_dump()) == config  # the pipeline gets it as a mapping
    assert load_config(DEMO, []).other_model is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("controls=[sfd]", "controls.0: 'sfd' is no control: use few_shot"),
        ("controls=[sft, {modell: a}]", "is no control"),
        ("controls=[model]", "'model' is no control"),  # which one?
        ("controls=[constant]", "'constant' is no control"),  # every run has it
        ("controls=[{model: a, k: 4}]", "controls.0"),
        ("controls=[{prompt: []}]", "controls.0"),
        ("controls=[[sft]]", "['sft'] is no control"),
        ("controls=[{model: 'openai:gpt@http://x'}]", "a model behind an address is written {model: NAME, endpoint: "),
        ("controls=[{model: 'http://127.0.0.1:8000/v1'}]", "api_key: env:NAME}"),
        ("controls=[{model: ''}]", "controls.0"),
        ("controls=[{model: a}, {model: b}]", "leave one `model` in the list"),
    ],
)
def test_what_is_no_control_is_refused_with_the_way_out(given, said):
    with pytest.raises(ConfigError) as caught:
        load_config(DEMO, [given])
    assert said in str(caught.value)


ENDPOINT = "http://127.0.0.1:8000/v1"


def endpoint_of(**settings):
    given = {"model": "gpt-x", "endpoint": ENDPOINT} | settings
    return load_config(DEMO, [f"controls=[few_shot, {json.dumps(given)}]"]).other_model


def test_a_model_behind_an_address_has_a_key_in_a_variable_and_limits():
    one = endpoint_of(api_key="env:OPENAI_API_KEY")
    assert (one.model, one.endpoint, one.api_key) == ("gpt-x", ENDPOINT, "env:OPENAI_API_KEY")
    assert (one.timeout_seconds, one.attempts, one.concurrency, one.revision) == (120.0, 5, 8, None)
    more = endpoint_of(timeout_seconds=9.5, attempts=2, concurrency=64)
    assert (more.timeout_seconds, more.attempts, more.concurrency, more.api_key) == (9.5, 2, 64, None)


@pytest.mark.parametrize("given", ["https://api.x.org/v1/", "https://api.x.org/openai/v1", "http://[::1]:80", ENDPOINT])
def test_an_endpoint_may_have_a_path(given):
    assert endpoint_of(endpoint=given).endpoint == given.rstrip("/")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"endpoint": "127.0.0.1:8000"}, "is no address such as http://127.0.0.1:8000/v1"),
        ({"endpoint": "ftp://x/v1"}, "is no address such as"),
        ({"endpoint": "http://x/v1?key=a"}, "is no address such as"),
        ({"endpoint": "http://user:word@x/v1"}, "controls[1].endpoint: looks like a secret"),
        ({"api_key": "EMPTY"}, "env:"),
        ({"endpoint": "env:NAME"}, "is no address such as"),
        ({"timeout_seconds": 0.0}, "greater than 0"),
        ({"attempts": 0}, "greater than or equal to 1"),
        ({"concurrency": 10_001}, "less than or equal to 10000"),
        ({"timeout": 3}, "controls.1"),
    ],
)
def test_what_an_endpoint_cannot_have_is_refused_with_a_sentence(settings, said):
    with pytest.raises(ConfigError) as caught:
        endpoint_of(**settings)
    assert said in str(caught.value)
    assert "word@" not in str(caught.value)


@pytest.mark.parametrize("more", [{}, {"timeout": 3}])
def test_a_key_that_is_written_down_is_refused_and_not_shown(more):
    key = "sk-proj-" + "x1Y2z3" * 8
    with pytest.raises(ConfigError) as caught:
        endpoint_of(api_key=key, **more)
    assert "looks like a secret" in str(caught.value)
    assert key[:12] not in str(caught.value)


def test_the_variable_of_a_key_is_looked_for_before_a_run(monkeypatch):
    monkeypatch.delenv("ENDPOINT_KEY", raising=False)
    config = load_config(DEMO, [f"controls=[{{model: a, endpoint: '{ENDPOINT}', api_key: 'env:ENDPOINT_KEY'}}]"])
    with pytest.raises(
        ConfigError, match=r"controls\.api_key needs the variable ENDPOINT_KEY, which is not set or empty"
    ):
        check_variables(config)
    monkeypatch.setenv("ENDPOINT_KEY", "sk-kept-secret")
    check_variables(config)
    assert "sk-kept-secret" not in config.model_dump_json()


def test_another_model_needs_an_engine_that_takes_it():
    server = "{engine: vllm_server, max_completion_length: 4, server: {addresses: [http://127.0.0.1:9]}}"
    with pytest.raises(ConfigError, match="sample the policy's own model alone"):
        load_config(DEMO, ["controls=[{model: a}]", f"rollout={server}"])
    elsewhere = f"controls=[{{model: a, endpoint: '{ENDPOINT}'}}]"
    assert load_config(DEMO, [elsewhere, f"rollout={server}"]).other_model.endpoint == ENDPOINT
