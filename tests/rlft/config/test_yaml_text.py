"""What is written as YAML is read as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.config.yaml_text import read_yaml, write_yaml
from rlft.texts.characters import visible

# All that UTF-8 takes; a lone surrogate is in no file.
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)


PLAIN = TEXTS | st.integers() | st.booleans() | st.none()


@pytest.mark.slow
@given(st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_plain_values_are_read_as_they_were_written(value):
    assert read_yaml(write_yaml([value])) == [value]


@pytest.mark.parametrize(
    "text", ["1e5", "+1.5E5", "1e-3", "a\x85b", "\u200e", "\u2028", "é", "no", "2014-03-04", "=", ""]
)
def test_texts_that_yaml_would_take_for_something_else(text):
    written = write_yaml({"a": text, "b": [text]})
    assert read_yaml(written) == {"a": text, "b": [text]}
    assert visible(written) == written  # so a terminal shows the file as it is


def test_what_yaml_1_1_takes_for_switches_octals_and_minutes_is_text():
    texts = ["no", "Yes", "on", "OFF", "012", "-08", "1:30", "190:20:30.5"]
    assert read_yaml(f"[{', '.join(texts)}]") == texts
    assert read_yaml("no: {012: 1}") == {"no": {"012": 1}}
    values = "[true, False, null, ~, 0, -0, 10, 1_000, 0.5, 0x1f, 012.5]"
    assert read_yaml(values) == [True, False, None, None, 0, 0, 10, 1000, 0.5, 31, 12.5]


def test_a_text_of_several_lines_is_a_block_that_a_person_can_read():
    program = 'def grade(sample, item):\n    if "a" in sample:\n\n        return 1.0\n    return 0\n'
    assert write_yaml({"source": program}) == (
        'source: |\n  def grade(sample, item):\n      if "a" in sample:\n\n          return 1.0\n      return 0\n'
    )


LINES = st.lists(st.text(alphabet=" \n\t#:-|>'\"a\u2028\x85é\r", max_size=6), min_size=1).map("\n".join)


@pytest.mark.slow
@given(LINES)
def test_texts_of_several_lines_are_read_as_they_were_written(text):
    assert read_yaml(write_yaml({"a": text, "b": [text]})) == {"a": text, "b": [text]}


def test_letters_stand_as_they_are_and_a_value_that_comes_twice_is_written_twice():
    row = {"a": "é"}
    assert write_yaml([row, row]) == "- a: é\n- a: é\n"
