"""Tools as a model sees them: a name, a description, and a JSON schema of the arguments.

`read_tools` reads the forms in which environments describe tools; a `ToolSpec` checks the arguments of a call.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema
from jsonschema.validators import extend
from pydantic import BaseModel, ValidationError

from rlft.errors import EnvironmentSetupError
from rlft.rewards.graders.json_values import unique_items

_Validator: Any = extend(jsonschema.Draft202012Validator, {"uniqueItems": unique_items})
_PARAMETERS = ("parameters", "input_schema", "inputSchema")  # OpenAI's name for the schema, Anthropic's and MCP's
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


class ToolArgumentsError(ValueError):
    """Raised for arguments that do not fit the tool; its text is shown to the model."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Describes one tool. `parameters` is a JSON schema of type object (draft 2020-12).

    `model` is a pydantic model of the arguments, if there is one (as for a tool made from a Python function). It then
    checks the arguments instead of the schema, and converts them ("3" becomes an int).
    """

    name: str
    description: str
    parameters: dict[str, Any]
    model: type[BaseModel] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the tool as the dict that chat templates take."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def read_arguments(self, arguments: Any) -> dict[str, Any]:
        """Check a call's arguments and return those to call the tool with.

        Raises ToolArgumentsError that names every wrong one.
        """
        if not isinstance(arguments, Mapping):
            raise ToolArgumentsError(f"arguments of {self.name} must be an object, not {type(arguments).__name__}")
        if self.model is not None:
            try:
                read = self.model.model_validate(dict(arguments))
            except ValidationError as error:
                found = [f"{'.'.join(map(str, e['loc'])) or self.name}: {e['msg']}" for e in error.errors()]
                raise ToolArgumentsError("; ".join(found)) from error
            return {name: getattr(read, name) for name in type(read).model_fields}
        errors = list(_Validator(self.parameters).iter_errors(dict(arguments)))
        if errors:
            raise ToolArgumentsError(
                "; ".join(f"{'.'.join(map(str, e.path)) or self.name}: {e.message}" for e in errors)
            )
        return dict(arguments)


def read_tools(tools: Any) -> tuple[ToolSpec, ...]:
    """Return what `list_tools` returned as specifications.

    A tool is a dict with `name`, `description` and `parameters`, alone or as the `function` of an OpenAI-style dict;
    a dataclass or pydantic object (MCP's, say) is read as its dict. `parameters` (`input_schema` and `inputSchema` are
    read too) are a JSON schema, or plain: {name: description}. A plain parameter takes any JSON value and need not be
    given; other names are refused. Raises EnvironmentSetupError that names the tool and what is wrong with it.
    """
    if not isinstance(tools, Sequence) or isinstance(tools, str | bytes):
        raise EnvironmentSetupError(f"returned {type(tools).__name__}, not a list of tools", where="list_tools")
    specs = tuple(_read_tool(tool, place) for place, tool in enumerate(tools))
    names = [spec.name for spec in specs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise EnvironmentSetupError(f"two tools are named {twice[0]!r}", where="list_tools", fix="rename one")
    return specs


def _read_tool(tool: Any, place: int) -> ToolSpec:
    if isinstance(tool, ToolSpec):
        return tool
    where = f"list_tools, tool {place + 1}"
    if isinstance(tool, BaseModel):
        tool = tool.model_dump()
    elif dataclasses.is_dataclass(tool) and not isinstance(tool, type):
        tool = dataclasses.asdict(tool)
    if isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping):
        tool = tool["function"]
    if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str) or not _NAME.fullmatch(tool["name"]):
        raise EnvironmentSetupError(
            f"{tool!r:.200} has no name that a model could call",
            where=where,
            fix='return dicts such as {"name": "search", "description": "...", "parameters": {"query": "..."}}',
        )
    description = tool.get("description") or ""
    parameters = next((tool[key] for key in _PARAMETERS if tool.get(key)), {})
    schema = _schema(parameters, f"{where} ({tool['name']})")
    return ToolSpec(tool["name"], str(description), schema)


def _schema(parameters: Any, where: str) -> dict[str, Any]:
    is_plain = isinstance(parameters, Mapping) and all(isinstance(value, str) for value in parameters.values())
    if is_plain and parameters.get("type") != "object":  # {"type": "object"} is a schema: of a tool without arguments
        properties = {name: {"description": text} for name, text in parameters.items()}
        return {"type": "object", "properties": properties, "additionalProperties": False}
    try:
        jsonschema.Draft202012Validator.check_schema(parameters)
    except jsonschema.SchemaError as error:
        raise EnvironmentSetupError(
            f"its parameters are no JSON schema: {error.message}",
            where=where,
            fix="give a schema of type object, or {name: description}",
        ) from error
    if not isinstance(parameters, Mapping) or parameters.get("type") != "object":
        raise EnvironmentSetupError(
            "its parameters are no schema of an object", where=where, fix='add "type": "object", or {name: description}'
        )
    return {"properties": {}, **parameters}
