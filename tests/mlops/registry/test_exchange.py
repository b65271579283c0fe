"""The conversations of a request and its answer, and the tags that a client gives."""

import json
from pathlib import Path

import pytest

from mlops.registry.conversations import Exchange, conversation_of, read_tags
from mlops.registry.engines import ServedVersion

VERSION = ServedVersion("small", "3", "champion", "abc", "m-1", Path("none/served"))
KEY = bytes(16)
USER = {"role": "user", "content": "Hi"}


def exchange(path, asked, answer, status=200):
    asked, answer = json.dumps(asked).encode(), json.dumps(answer).encode()
    return Exchange(VERSION, path, asked, status, "application/json", answer, 0, 1, KEY)


def said(path, asked, answer, status=200):
    return conversation_of(exchange(path, asked, answer, status))


def assistant(text):
    return [{"role": "assistant", "content": text}]


def test_a_chat_and_a_completion_are_one_conversation():
    answer = {"choices": [{"message": assistant("Yes")[0]}]}
    assert said("/v1/chat/completions", {"messages": [USER]}, answer) == ([USER], assistant("Yes"))
    answer = {"choices": [{"text": "Yes"}]}
    assert said("/v1/completions", {"prompt": "Hi"}, answer) == ([USER], assistant("Yes"))


@pytest.mark.parametrize(
    "asked",
    [
        {"inputs": [{"prompt": "Hi"}], "params": {"max_new_tokens": 3}},
        {"inputs": {"messages": [USER]}},
        {"dataframe_records": [{"prompt": "Hi"}]},
        {"messages": [USER]},
    ],
)
def test_the_forms_of_mlflows_server_are_read(asked):
    for answer in ({"predictions": ["Yes"]}, ["Yes"]):
        assert said("/invocations", asked, answer) == ([USER], assistant("Yes"))


@pytest.mark.parametrize(
    ("asked", "answer", "status"),
    [
        ({"inputs": [{"prompt": "Hi"}, {"prompt": "Ho"}]}, {"predictions": ["a", "b"]}, 200),
        ({"inputs": [{"prompt": "Hi"}]}, {"predictions": [1]}, 200),
        ({"inputs": ["Hi"]}, {"predictions": ["a"]}, 200),
        ({"inputs": 5}, {"predictions": ["a"]}, 200),
        ({"inputs": ["Hi"]}, {"error": "no"}, 400),
        ({"messages": [1, 2, "x"]}, {"error": "no"}, 400),
        ({"messages": 5}, {"error": "no"}, 400),
        ([USER], {"error": "no"}, 400),
    ],
)
def test_what_cannot_be_taken_apart_is_one_conversation_as_it_was_sent(asked, answer, status):
    shown, answered = said("/invocations", asked, answer, status)
    assert shown == [{"role": "user", "content": json.dumps(asked)}]
    assert answered == assistant(json.dumps(answer))


def test_a_body_that_is_no_json_is_one_message_as_it_was_sent():
    given = Exchange(VERSION, "/invocations", b"a,b\nHi", 415, "text/plain", b"no", 0, 1, KEY)
    assert conversation_of(given) == ([{"role": "user", "content": "a,b\nHi"}], assistant("no"))


def test_tags_are_read_from_one_header_or_several():
    assert read_tags([]) == {}
    assert read_tags(["kind=odd, user.group=a b", "n=1"]) == {"kind": "odd", "user.group": "a b", "n": "1"}


@pytest.mark.parametrize(
    "header",
    [
        "",
        "kind",
        "kind=",
        "=odd",
        "1=a",
        "rlft.version=9",
        "MLflow.user=me",
        "a=1,",
        "a=b\x1b",
        "a" * 51 + "=1",
        "a=" + "b" * 251,
    ],
)
def test_what_is_no_tag_is_refused_with_what_to_write(header):
    with pytest.raises(ValueError, match=r"which is no tag; write NAME=VALUE.* begin with rlft\. or mlflow\."):
        read_tags([header])


def test_more_than_ten_tags_are_refused():
    with pytest.raises(ValueError, match="holds 11 tags; at most 10"):
        read_tags([",".join(f"a{n}=1" for n in range(11))])
