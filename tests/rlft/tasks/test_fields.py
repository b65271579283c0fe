import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlft.errors import TaskError
from rlft.tasks.rows import FieldError, check_template, find_field, format_template, to_json


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(1.5), 1.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array(["a", None], dtype=object), ["a", None]),
        (float("nan"), None),
        (np.float64("nan"), None),
        (pd.NaT, None),
        (pd.Timestamp("2026-01-02 03:04:05"), "2026-01-02T03:04:05"),
        (np.datetime64("2026-01-02"), "2026-01-02"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), "2026-01-02T03:00:00+00:00"),
        (Decimal("12.50"), "12.50"),
        ((1, (2, {3: "x"})), [1, [2, {"3": "x"}]]),
        ("½ \u2028", "½ \u2028"),
    ],
)
def test_values_become_plain_json(value: Any, expected: Any):
    result = to_json(value, "x")
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"bytes", "has a bytes in field 'x', which JSON cannot hold: drop the column"),
        (float("inf"), "has inf in field 'x', which JSON cannot hold"),
        ("\ud83d", "has half a surrogate pair in field 'x'"),
        ({"a": [object()]}, "has a object in field 'x'"),
    ],
)
def test_what_json_cannot_hold(value: Any, reason: str):
    with pytest.raises(FieldError, match=reason):
        to_json(value, "x")


def test_fields_by_name_and_by_path():
    row = {"a.b": 1, "a": {"b": 2, "c": {"d": 3}}}
    assert find_field(row, "a.b") == 1  # a column of that name comes first
    assert find_field(row, "a.c.d") == 3
    with pytest.raises(FieldError, match=r"has no field 'a.x' \(it has: a.b, a; did you mean a.c\?\)"):
        find_field(row, "a.x")


def test_templates():
    row = {"q": "1+2", "n": 7, "m": {"e": "x{y}"}, "l": ["ü"], "none": None}
    assert format_template(row, "{q}\nAnswer ({n:03d}):") == "1+2\nAnswer (007):"
    assert format_template(row, "{m[e]}=") == "x{y}="  # braces of the data are not filled again
    assert format_template(row, "{{{l}}}") == '{["ü"]}'
    for template in ("{x}", "{m[z]}", "{0}", "{}", "{q.nothing}"):
        with pytest.raises(FieldError, match=r"has no field .* \(it has: q, n, m, l, none\)"):
            format_template(row, template)
    with pytest.raises(FieldError, match=r"has nothing in field \{none\}"):
        format_template(row, "{none}")
    with pytest.raises(FieldError, match="does not fit the template"):
        format_template(row, "{q:d}")


def test_a_template_that_cannot_be_parsed_is_an_error_of_the_config():
    check_template("{q} and {{braces}}", "tasks.prompt")
    check_template(None, "tasks.prompt")
    with pytest.raises(TaskError, match=r"tasks.prompt: '\{q' is not a template"):
        check_template("{q", "tasks.prompt")
