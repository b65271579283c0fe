"""Makes tools from Python functions: the schema from the signature, the descriptions from the docstring."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union, get_args, get_origin

import docstring_parser
from pydantic import ConfigDict, Field, PydanticUserError, create_model

from rlft.contract.tools import ToolSpec
from rlft.errors import EnvironmentSetupError

_PLAIN_TYPES = (
    "use str, int, float, bool, lists and dicts of them, Literal or pydantic models, and no leading underscore"
)


def tool_from_function(function: Callable[..., Any], *, hidden: Sequence[str] = ()) -> ToolSpec:
    """Return a tool made from a function's signature and docstring, without the parameters named in `hidden`.

    Hidden parameters are filled in by the harness and not by the model. Raises EnvironmentSetupError for a function
    without a docstring, and for parameters that are variadic, positional-only, without a type, or of a type that has
    no JSON schema.
    """
    where = f"tool {function.__name__}"
    docstring = docstring_parser.parse(inspect.getdoc(function) or "")
    if not docstring.short_description:
        raise EnvironmentSetupError("it has no docstring", where=where, fix="say in one what the tool does")
    texts = {parameter.arg_name: parameter.description for parameter in docstring.params}
    fields: dict[str, Any] = {}
    for name, parameter in _signature(function, where).parameters.items():
        if name in hidden:
            _check_hidden(name, parameter.annotation, where)
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise EnvironmentSetupError(f"{parameter} cannot be described", where=where, fix="name every argument")
        if parameter.annotation is parameter.empty:
            raise EnvironmentSetupError(f"{name} has no type", where=where, fix=f"write {name}: str, say")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (parameter.annotation, Field(default, description=texts.get(name)))
    try:
        model = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
        schema = _without_titles(model.model_json_schema())
    except (PydanticUserError, NameError) as error:
        raise EnvironmentSetupError(
            f"its arguments cannot be described: {str(error).splitlines()[0]}", where=where, fix=_PLAIN_TYPES
        ) from error
    paragraphs = [docstring.short_description, docstring.long_description]
    return ToolSpec(function.__name__, "\n".join(filter(None, paragraphs)), {"properties": {}, **schema}, model)


def _signature(function: Callable[..., Any], where: str) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError as error:
        raise EnvironmentSetupError(
            f"a type cannot be read: {error}", where=where, fix="import it outside of `if TYPE_CHECKING`"
        ) from error


def _check_hidden(name: str, annotation: Any, where: str) -> None:
    """Raise EnvironmentSetupError if the type shows that the author means this hidden parameter for the model."""
    wanted = str if name == "rollout_id" else Mapping
    union = get_origin(annotation) in (Union, types.UnionType)
    kinds = [get_origin(each) or each for each in (get_args(annotation) if union else (annotation,))]
    if any(
        kind in (inspect.Parameter.empty, Any) or (isinstance(kind, type) and issubclass(kind, wanted))
        for kind in kinds
    ):
        return
    meaning = "id" if name == "rollout_id" else "dict"
    raise EnvironmentSetupError(
        f"{name} is the rollout's own {meaning} and not the model's to give",
        where=where,
        fix="name the argument otherwise",
    )


def _without_titles(schema: Any) -> Any:
    """Return the schema without pydantic's titles, which repeat the names; an argument called `title` stays."""
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_titles(value) for key, value in schema.items() if key != "title" or not isinstance(value, str)
    }
