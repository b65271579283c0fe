"""Tools as a model sees them: a name, a description, and a JSON schema of the arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import docstring_parser
import jsonschema
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from rlft.errors import EnvironmentSetupError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


class ToolArgumentsError(ValueError):
    """Arguments that do not fit the tool; its text is for the model."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool. `parameters` is a JSON schema of type object (draft 2020-12).

    `model` is there for tools made from a Python function: it converts arguments as pydantic does ("3" is an int).
    """

    name: str
    description: str
    parameters: dict[str, Any]
    model: type[BaseModel] | None = None

    def to_json(self) -> dict[str, Any]:
        """As chat templates take it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def read_arguments(self, arguments: Any) -> dict[str, Any]:
        """The arguments to call the tool with. Raises ToolArgumentsError that names every wrong one."""
        if not isinstance(arguments, Mapping):
            raise ToolArgumentsError(f"arguments of {self.name} must be an object, not {type(arguments).__name__}")
        if self.model is not None:
            try:
                read = self.model.model_validate(dict(arguments))
            except ValidationError as error:
                found = [f"{'.'.join(map(str, e['loc'])) or self.name}: {e['msg']}" for e in error.errors()]
                raise ToolArgumentsError("; ".join(found)) from error
            return {name: getattr(read, name) for name in type(read).model_fields}
        errors = list(jsonschema.Draft202012Validator(self.parameters).iter_errors(dict(arguments)))
        if errors:
            raise ToolArgumentsError(
                "; ".join(f"{'.'.join(map(str, e.path)) or self.name}: {e.message}" for e in errors)
            )
        return dict(arguments)


def read_tools(tools: Any) -> tuple[ToolSpec, ...]:
    """What `list_tools` returned as specifications.

    A tool is a dict with `name`, `description` and `parameters`, alone or as the `function` of an OpenAI-style dict.
    `parameters` are a JSON schema, or {name: description} for strings that must all be given. Raises
    EnvironmentSetupError that names the tool and what is wrong with it.
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
    if isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping):
        tool = tool["function"]
    if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str) or not _NAME.fullmatch(tool["name"]):
        raise EnvironmentSetupError(
            f"{tool!r:.200} has no name that a model could call",
            where=where,
            fix='return dicts such as {"name": "search", "description": "...", "parameters": {"query": "..."}}',
        )
    description = tool.get("description") or ""
    schema = _schema(tool.get("parameters") or {}, f"{where} ({tool['name']})")
    return ToolSpec(tool["name"], str(description), schema)


def _schema(parameters: Any, where: str) -> dict[str, Any]:
    is_plain = isinstance(parameters, Mapping) and all(isinstance(value, str) for value in parameters.values())
    if is_plain and parameters.get("type") != "object":
        properties = {name: {"type": "string", "description": text} for name, text in parameters.items()}
        return {"type": "object", "properties": properties, "required": list(properties)}
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


def tool_from_function(function: Callable[..., Any], *, hidden: Sequence[str] = ()) -> ToolSpec:
    """A tool from a function's signature and docstring; parameters named in `hidden` are not the model's to give.

    Raises EnvironmentSetupError for `*args`, for parameters without a type, and without a docstring.
    """
    where = f"tool {function.__name__}"
    docstring = docstring_parser.parse(inspect.getdoc(function) or "")
    if not docstring.short_description:
        raise EnvironmentSetupError("it has no docstring", where=where, fix="say in one what the tool does")
    texts = {parameter.arg_name: parameter.description for parameter in docstring.params}
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if name in hidden:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise EnvironmentSetupError(f"{parameter} cannot be described", where=where, fix="name every argument")
        if parameter.annotation is parameter.empty:
            raise EnvironmentSetupError(f"{name} has no type", where=where, fix=f"write {name}: str, say")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (parameter.annotation, Field(default, description=texts.get(name)))
    model = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
    paragraphs = [docstring.short_description, docstring.long_description]
    schema = _without_titles(model.model_json_schema())
    return ToolSpec(function.__name__, "\n".join(filter(None, paragraphs)), {"properties": {}, **schema}, model)


def _without_titles(schema: Any) -> Any:
    """Pydantic's titles repeat the names; an argument may be called title."""
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_titles(value) for key, value in schema.items() if key != "title" or not isinstance(value, str)
    }
