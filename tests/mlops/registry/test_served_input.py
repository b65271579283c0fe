"""What a served policy can be asked, and what it says of the rest."""

import re

import numpy as np
import pandas as pd
import pytest

from mlops.registry.served_policy import as_messages, conversations
from rlft.messages import as_messages as as_in_training

ASK = [{"role": "user", "content": "q"}]
SEARCH = {"name": "search", "arguments": '{"query": "sky"}'}


@pytest.mark.parametrize(
    "given",
    [
        {"prompt": ["q", "q"]},
        {"messages": [ASK, ASK], "prompt": [None, None], "id": 1},
        {"messages": [np.array(ASK), ASK]},  # as Parquet has it
    ],
)
def test_each_row_is_a_conversation(given):
    assert conversations(pd.DataFrame(given)) == [ASK, ASK]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ([], "there is nothing to answer; send"),
        ([{"text": "q"}], "row 0 has neither"),
        ([{"prompt": "q"}, {"prompt": None}], "row 1 has neither"),
        ([{"messages": []}], "row 0 has no messages"),
        ([{"messages": [{"role": "user"}]}], "message 1 of row 0 has no text as content"),
        ([{"messages": [*ASK, "q"]}], "message 2 of row 0 has no role; write"),
        ([{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}], "has no text as content"),
        (
            [{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "["}}]}]}],
            "call",
        ),
    ],
)
def test_what_cannot_be_read_is_told(given, what):
    with pytest.raises(ValueError, match=re.escape(what)):
        conversations(pd.DataFrame(given))


def test_messages_are_read_as_in_training():
    given = [
        {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
        {"role": "user", "content": "q", "name": None},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call00000", "function": SEARCH}]},
        {"role": "tool", "content": "blue", "tool_call_id": "call00000"},
    ]
    assert as_messages(given, "the list") == list(as_in_training(given))
