import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.errors import ConfigError
from rlft.evaluation.model_names import ModelName, labels_of, parse_model

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}[A-Za-z0-9]", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("Qwen/Qwen2.5-0.5B-Instruct", {"kind": "weights", "name": "Qwen/Qwen2.5-0.5B-Instruct"}),
        ("gpt2@v1", {"kind": "weights", "name": "gpt2", "revision": "v1"}),
        ("./out/model", {"kind": "weights", "name": "./out/model"}),
        ("/data/a:b@c", {"kind": "weights", "name": "/data/a:b@c"}),
        ("..", {"kind": "weights", "name": ".."}),
        ("models:/demo@champion", {"kind": "registry", "name": "demo", "alias": "champion"}),
        ("models:/demo/3", {"kind": "registry", "name": "demo", "version": "3"}),
        ("demo-2026:best", {"kind": "run", "name": "demo-2026", "policy": "best"}),
        ("demo:round=20", {"kind": "run", "name": "demo", "policy": "round", "round": 20}),
        (
            "openai:gpt-x@http://127.0.0.1:8000/v1/",
            {"kind": "endpoint", "name": "gpt-x", "address": "http://127.0.0.1:8000/v1"},
        ),
        ("openai:a@b@https://host/v1", {"kind": "endpoint", "name": "a@b", "address": "https://host/v1"}),
    ],
)
def test_forms(text, fields):
    assert parse_model(text) == ModelName(text=text, **fields)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gpt2@",
        "models:/demo",
        "models:/demo/0",
        "models:/demo/v2",
        "models:/a@b/3",
        "run:bst",
        "run:round=0",
        "run:round=-1",
        "openai:gpt-x",
        "openai:@http://127.0.0.1:1/v1",
        "openai:a@ftp://host",
        "a/../../b",
    ],
)
def test_what_names_no_model_is_told_with_the_forms_that_there_are(text):
    with pytest.raises(ConfigError) as error:
        parse_model(text)
    assert error.value.where == f"MODEL {text!r}"
    assert "models:/NAME@ALIAS" in error.value.fix


@given(st.text(max_size=60))
def test_any_text_is_a_model_or_a_config_error(text):
    with suppress(ConfigError):
        assert parse_model(text).text == text


@given(NAMES, st.integers(1, 10**9 - 1), st.integers(1, 10**6))
def test_what_is_written_is_what_is_read(name, number, rounds):
    assert parse_model(f"models:/{name}/{number}") == ModelName(
        f"models:/{name}/{number}", "registry", name, version=str(number)
    )
    found = parse_model(f"{name}:round={rounds}")
    assert (found.name, found.round) == (name, rounds)


def test_labels_tell_models_apart():
    texts = ["a/gpt2", "b/gpt2", "models:/demo@champion", "models:/demo/3", "run:best", "run:round=2"]
    assert labels_of([parse_model(text) for text in texts]) == [
        "gpt2", "gpt2-2", "demo-champion", "demo-3", "run-best", "run-round2",
    ]  # fmt: skip


@given(st.lists(st.text(min_size=1, max_size=90), max_size=6, unique=True))
def test_labels_can_stand_in_the_name_of_a_step(texts):
    models = [ModelName(text, "weights", text) for text in texts]
    labels = labels_of(models)
    assert len(set(labels)) == len(texts)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,60}", label) for label in labels)
