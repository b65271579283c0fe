"""JSON values against schemas, and values by their paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.graders.json_paths import MISSING, check_path, value_at
from rlft.graders.limited import PatternTooSlow
from rlft.graders.schemas import check_schema, schema_problem

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}


def test_a_value_fits_or_the_first_problem_is_named():
    assert schema_problem({"n": 1}, SCHEMA) is None
    assert schema_problem({"n": -1}, SCHEMA) == "n: -1 is less than the minimum of 0"
    assert schema_problem({}, SCHEMA) == "'n' is a required property"
    assert "has a value twice" in str(schema_problem([1, 1.0], {"uniqueItems": True}))


@pytest.mark.parametrize(
    ("schema", "said"),
    [({"type": "thing"}, "no JSON schema"), ({"$ref": "http://127.0.0.1/x"}, "leads out"),
     ({"pattern": "("}, "is not a .regex."),
     ({"patternProperties": {"a": {}}}, "cannot be cut")],
)  # fmt: skip
def test_what_is_no_schema_is_refused(schema, said):
    with pytest.raises(ValueError, match=said):
        check_schema(schema)


def test_a_pattern_of_a_schema_is_cut_too():
    with pytest.raises(PatternTooSlow):
        schema_problem("a" * 5000 + "b", {"pattern": "^(a|aa)+$"})


def test_a_path_leads_to_a_value_to_several_or_to_nothing():
    value = {"a": [{"b": None}, {"b": 2}]}
    assert value_at(value, "$.a[0].b") is None
    assert value_at(value, "$.a[*].b") == [None, 2]
    assert value_at(value, "$.c") is MISSING
    assert value_at(value, "$.c[*]") == []
    with pytest.raises(ValueError, match="no JSON path"):
        check_path("$.[")


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=2), inner),
        max_leaves=8,
    )
)
def test_no_value_raises(value):
    for path in ("$.a", "$[0]", "$..b", "$.a[*].b"):
        value_at(value, path)
    schema_problem(value, SCHEMA)
