"""JSON values against schemas, and values by their paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.rewards.graders.json_values import MISSING, check_path, check_schema, schema_problem, value_at
from rlft.rewards.graders.plain import PatternTooSlow

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


@pytest.mark.slow
def test_a_pattern_of_a_schema_is_cut_too():
    with pytest.raises(PatternTooSlow):
        schema_problem("a" * 5000 + "b", {"pattern": "^(a|aa)+$"})


@pytest.mark.parametrize("named", ["https://json-schema.org/draft/2020-12/schema", None])
def test_a_pattern_behind_a_reference_to_the_whole_schema_is_cut(named):
    schema = {"properties": {"a": {"$ref": "#"}}, "pattern": "^(a|aa)+$"} | ({"$schema": named} if named else {})
    check_schema(schema)
    with pytest.raises(PatternTooSlow):
        schema_problem({"a": "a" * 5000 + "b"}, schema)


def test_multiples_are_those_of_decimals():
    cents = {"multipleOf": 0.01}
    # As floats 19.99 / 0.01 is 1998.9999999999998.
    assert [schema_problem(each, cents) for each in (19.99, 0.29, 4.35, 1, 10**400, 1e308)] == [None] * 6
    assert schema_problem(0.001, cents) == "0.001 is not a multiple of 0.01"
    assert schema_problem(7, {"multipleOf": 2}) == "7 is not a multiple of 2"
    assert schema_problem("x", cents) is None


def test_a_path_leads_to_a_value_to_several_or_to_nothing():
    value = {"a": [{"b": None}, {"b": 2}]}
    assert value_at(value, "$.a[0].b") is None
    assert value_at(value, "$.a[*].b") == [None, 2]
    assert value_at(value, "$.c") is MISSING
    assert value_at(value, "$.c[*]") == []
    with pytest.raises(ValueError, match="no JSON path"):
        check_path("$.[")


def test_signs_in_a_quoted_key_are_letters_of_it():
    value = {"dc:title": "x", "a,b": 1, "c": [1, 2, 3], "d..e": None, "f": {"*": 4}}
    assert value_at(value, "$['dc:title']") == "x"
    assert value_at(value, "$['a,b']") == 1
    assert value_at(value, "$['d..e']") is None
    assert value_at(value, "$['x:y']") is MISSING
    assert value_at(value, "$.c[0:2]") == [1, 2]
    assert value_at(value, "$.c[0,2]") == [1, 3]
    assert value_at(value, "$['dc:title','a,b']") == ["x", 1]
    assert value_at(value, "$.c") == [1, 2, 3]
    assert value_at(value, "$..c") == [[1, 2, 3]]


@pytest.mark.slow
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
