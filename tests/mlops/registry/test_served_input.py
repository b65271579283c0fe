"""What a served policy can be asked, and what it says of the rest."""

import json

import numpy as np
import pandas as pd
import pytest

from mlops.registry.served_input import as_messages, conversations
from rlft.messages import as_messages as as_in_training

ASK = [{"role": "user", "content": "q"}]
SEARCH = {"name": "search", "arguments": '{"query": "sky"}'}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("q", [ASK]),
        (["q", "q"], [ASK, ASK]),
        (ASK, [ASK]),
        (ASK[0], [ASK]),
        ([ASK, ASK], [ASK, ASK]),
        ({"prompt": "q"}, [ASK]),
        ({"prompt": ["q", "q"]}, [ASK, ASK]),
        ({"messages": ASK}, [ASK]),
        ([{"prompt": "q", "id": 3}, {"messages": ASK}, "q", ASK], [ASK] * 4),
        (pd.DataFrame({"prompt": ["q", "q"]}), [ASK, ASK]),
        (pd.DataFrame({"messages": [ASK, json.dumps(ASK), None], "prompt": [None, None, "q"], "id": 1}), [ASK] * 3),
        (pd.DataFrame(["q", "q"]), [ASK, ASK]),
        (pd.Series(["q"]), [ASK]),
        (np.array(["q", "q"]), [ASK, ASK]),
        (pd.DataFrame({"messages": [np.array(ASK)]}), [ASK]),  # as Parquet has it
    ],
)
def test_requests(given, expected):
    assert conversations(given) == expected


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (3, "int is nothing that can be answered; send a text"),
        ([], "there is nothing to answer; send a text"),
        (pd.DataFrame({"prompt": []}), "the table has no rows"),
        ([3], "row 0 is int; send a text"),
        (pd.DataFrame({"text": ["q"]}), "neither `messages` nor `prompt`, only: text; send"),
        (pd.DataFrame({"prompt": ["q", None]}), "row 1 has neither"),
        ([{"text": "q"}], "row 0 has neither"),
        ({"text": "q"}, "`text` cannot be read; send"),
        (
            {"messages": ASK, "max_tokens": 3},
            "`max_tokens` cannot be read; the length of an answer is `max_new_tokens`",
        ),
        ({"messages": ASK, "prompt": "q"}, "either `messages` or `prompt`"),
        ({"messages": []}, "the request has no messages"),
        ({"messages": "["}, "`messages` of the request is a text that is no JSON"),
        ([{"role": "user"}], "message 1 of the list has no text as content"),
        ({"messages": [*ASK, "q"]}, "message 2 of the request has no role; write"),
        ([[{"role": "user", "content": [{"type": "image_url"}]}]], "message 1 of row 0 has no text as content"),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "["}}]}],
            "a tool call that can",
        ),
    ],
)
def test_what_cannot_be_read_is_told(given, what):
    with pytest.raises(ValueError, match=what.replace("(", r"\(").replace("[", r"\[")):
        conversations(given)


def test_messages_are_read_as_in_training():
    answered = {"role": "tool", "content": "blue"}
    given = [
        {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
        {"role": "user", "content": "q", "name": None},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call00000", "function": SEARCH}, SEARCH]},
        {**answered, "tool_call_id": "call00001"},
        answered,
    ]
    assert as_messages(given, "the list") == list(as_in_training(given))
