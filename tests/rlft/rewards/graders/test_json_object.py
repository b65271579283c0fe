import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.rewards.graders.json_values import read_json_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_reads_what_json_writes(value):
    assert read_json_object(json.dumps(value)) == value
    assert read_json_object(f"So it is:\n```json\n{json.dumps(value, ensure_ascii=False, indent=1)}\n```\n") == value


@given(st.text())
def test_any_text_is_an_object_or_nothing(text):
    assert read_json_object(text) is None or isinstance(read_json_object(text), dict)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "}{",
        "[]",
        '{"a": 1',
        '{"a": 1} {"a": 1}',  # two answers
        '{"a": 1, "a": 1}',
        '{"a": {"b": 1, "b": 2}}',
        '{"a": [{"b": 1, "b": 2}]}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": [-1e999]}',
        '{"a": ' + "9" * 5000 + "}",
        '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{x} {"a": 1}',
    ],
)
def test_what_is_not_one_object_is_none(text):
    assert read_json_object(text) is None
