"""Tools as a model sees them: schemas from dicts and from functions, and arguments that are checked."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from rlft.environments.contract.marks import HIDDEN, ToolArgumentsError, read_tools, tool_from_function
from rlft.errors import EnvironmentSetupError

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def look_up(title: str, lines: int = 3, part: Literal["head", "tail"] = "head", state: dict | None = None) -> str:
    """Read an article.

    As it was last week.

    Args:
        title: Its title.
        lines: How many.
    """
    return f"{title} {lines} {part} {state}"


def test_plain_parameters_take_any_value_and_require_none():
    (tool,) = read_tools(
        [{"name": "look_up", "description": "Read.", "parameters": {"title": "Its title.", "lines": "3 if not given."}}]
    )
    assert tool.parameters == {
        "type": "object",
        "properties": {"title": {"description": "Its title."}, "lines": {"description": "3 if not given."}},
        "additionalProperties": False,
    }
    for given in (
        {},
        {"title": "Rome"},
        {"lines": 3},
        {"lines": "3"},
        {"title": ["Rome", None], "lines": {"from": 1.5}},
    ):
        assert tool.read_arguments(given) == given
    with pytest.raises(ToolArgumentsError, match=r"look_up: Additional .* not allowed \('rows' was unexpected\)"):
        tool.read_arguments({"title": "Rome", "rows": "3"})


@pytest.mark.parametrize("key", ["parameters", "input_schema", "inputSchema"])
def test_other_names_of_the_parameters_are_read(key):
    plain, schema = read_tools([{"name": "a", key: {"n": "a number"}}, {"name": "b", key: SCHEMA}])
    assert plain.parameters["properties"] == {"n": {"description": "a number"}}
    assert schema.parameters == SCHEMA


@dataclass
class Definition:
    name: str
    description: str
    input_schema: dict


class McpTool(BaseModel):
    name: str
    description: str | None = None
    inputSchema: dict


@pytest.mark.parametrize(
    "tool", [Definition("b", "B.", SCHEMA), McpTool(name="b", description="B.", inputSchema=SCHEMA)]
)
def test_objects_are_read_as_their_dicts(tool):
    (spec,) = read_tools([tool])
    assert (spec.name, spec.description, spec.parameters) == ("b", "B.", SCHEMA)


def test_a_schema_is_taken_as_it_is_and_so_is_what_openai_writes():
    plain, wrapped, bare = read_tools(
        [
            {"name": "a", "description": "A.", "parameters": SCHEMA},
            {"type": "function", "function": {"name": "b", "description": "B.", "parameters": SCHEMA}},
            {"name": "c"},
        ]
    )
    assert plain.parameters == wrapped.parameters == SCHEMA
    assert wrapped.to_json()["function"] == {"name": "b", "description": "B.", "parameters": SCHEMA}
    assert bare.read_arguments({}) == {}
    with pytest.raises(ToolArgumentsError, match="'x' was unexpected"):
        bare.read_arguments({"x": 1})
    with pytest.raises(ToolArgumentsError, match="must be an object, not list"):
        plain.read_arguments([1])


def test_a_parameter_may_be_called_type():
    (tool,) = read_tools([{"name": "find", "parameters": {"type": "What kind."}}])
    assert tool.read_arguments({"type": "road"}) == {"type": "road"}


@pytest.mark.parametrize(
    ("tools", "text"),
    [
        ({"name": "a"}, "returned dict, not a list"),
        ("ab", "returned str, not a list"),
        ([{"description": "no name"}], "has no name"),
        ([{"name": "two words"}], "has no name"),
        ([{"name": "a"}, {"name": "a"}], "two tools are named 'a'"),
        ([{"name": "a", "parameters": {"type": "array"}}], None),
        ([{"name": "a", "parameters": {"n": {"type": "integer"}}}], "no schema of an object"),
        ([{"name": "a", "parameters": {"type": "object", "properties": {"n": {"type": "int"}}}}], "no JSON schema"),
    ],
)
def test_tools_that_cannot_be_described(tools, text):
    if text is None:  # {"type": "array"} reads as one parameter of this name
        assert list(read_tools(tools)[0].parameters["properties"]) == ["type"]
        return
    with pytest.raises(EnvironmentSetupError, match=text):
        read_tools(tools)


def test_a_function_is_a_tool():
    tool = tool_from_function(look_up, hidden=("state",))
    assert (tool.name, tool.description) == ("look_up", "Read an article.\nAs it was last week.")
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "Its title."},
            "lines": {"type": "integer", "default": 3, "description": "How many."},
            "part": {"type": "string", "enum": ["head", "tail"], "default": "head"},
        },
        "required": ["title"],
        "additionalProperties": False,
    }
    assert tool.read_arguments({"title": "Rome", "lines": "5"}) == {"title": "Rome", "lines": 5, "part": "head"}
    with pytest.raises(ToolArgumentsError, match=r"title: Field required; part: .*; where: Extra inputs"):
        tool.read_arguments({"part": "middle", "where": "there"})


def test_an_argument_may_be_called_title_and_a_schema_may_hold_others():
    def find(title: str, tags: list[dict[str, str]]) -> str:
        """Find."""
        return title + str(tags)

    schema = tool_from_function(find).parameters
    assert schema["properties"]["title"] == {"type": "string"}
    assert schema["properties"]["tags"]["items"] == {"additionalProperties": {"type": "string"}, "type": "object"}


def silent(x: int) -> int:
    return x


def untyped(x) -> int:
    """Has no type."""
    return x


def open_ended(*x: int) -> int:
    """Takes any number."""
    return sum(x)


def test_references_that_lead_somewhere_are_followed():
    number = {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": {"type": "integer"}}}
    (tool,) = read_tools([{"name": "a", "parameters": number}])
    assert tool.read_arguments({"n": 3}) == {"n": 3}
    with pytest.raises(ToolArgumentsError, match="'x' is not of type 'integer'"):
        tool.read_arguments({"n": "x"})


@pytest.mark.parametrize("annotation", [dict, dict[str, int] | None, Mapping, MutableMapping[str, Any], Any])
def test_the_state_may_be_written_in_several_ways(annotation):
    def act(state) -> str:
        """Act."""
        return ""

    act.__annotations__["state"] = annotation
    assert tool_from_function(act, hidden=HIDDEN).parameters["properties"] == {}


def of_an_object(x: pytest.MonkeyPatch) -> str:
    """Takes what JSON has not."""
    return str(x)


def unread(x: "NotImported") -> str:  # noqa: F821 # type: ignore[reportUndefinedVariable]
    """Has a type that is not there."""
    return str(x)


def underscored(_x: int) -> int:
    """Has a name that pydantic keeps for itself."""
    return _x


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (silent, "no docstring"),
        (untyped, "x has no type"),
        (open_ended, r"\*x: int cannot be described"),
        (of_an_object, "tool of_an_object: its arguments cannot be described: .*MonkeyPatch"),
        (unread, "tool unread: a type cannot be read: name 'NotImported' is not defined"),
        (underscored, "tool underscored: its arguments cannot be described: .*leading underscores"),
    ],
)
def test_functions_that_are_no_tools(function, text):
    with pytest.raises(EnvironmentSetupError, match=text):
        tool_from_function(function)
