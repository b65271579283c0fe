"""The decorators `@tool`, `@reward` and `@metric`, what reads the marks, and tools as a model sees them.

A tool is a name, a description, and a JSON schema of the arguments: a `ToolSpec`, which checks the arguments of a call.
It is made of a function, or read in the forms in which environments describe tools (`read_tools`).
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args, overload

import docstring_parser
import jsonschema
from jsonschema.validators import extend
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model

from rlft.errors import EnvironmentSetupError
from rlft.rewards.graders.json_values import unique_items

Method = TypeVar("Method", bound=Callable[..., Any])

HIDDEN = ("self", "state", "rollout_id")
"""Parameters of a tool that `BaseEnv.run_tool` fills in, so that the model does not see them."""
Per = Literal["attempt", "turn"]
TOOL, WEIGHT, MAXIMUM = "__rlft_tool__", "__rlft_weight__", "__rlft_maximum__"
MINIMUM, STEP = "__rlft_minimum__", "__rlft_step__"


def tool(method: Method) -> Method:
    """Make a method a tool that the model may call by the method's name.

    The types of its parameters become the tool's schema, and its docstring the description that the model reads. The
    method may also take `state`, the dict of the rollout, and `rollout_id`; the model does not see these.

    >>> import rlft
    >>> class Capitals(rlft.BaseEnv):
    ...     @rlft.tool
    ...     def look_up(self, country: str, state: dict) -> str:
    ...         \"\"\"Read the article about a country.
    ...
    ...         Args:
    ...             country: Its name in English.
    ...         \"\"\"
    ...         return "Its capital is Lima."
    """
    setattr(method, TOOL, True)
    return method


@overload
def reward(weight: Method) -> Method: ...
@overload
def reward(
    weight: float = 1.0, maximum: float = 1.0, minimum: float | None = None, per: Per = "attempt"
) -> Callable[[Method], Method]: ...
def reward(weight: Any = 1.0, maximum: Any = 1.0, minimum: Any = None, per: Any = "attempt") -> Any:
    """Make a method a part of the reward, under its own name and with this weight; `reward.weights` overrides it.

    The method takes, by name, what it needs of `completion` (a `Trajectory`), `text` (`completion.text`),
    `thinking` (`completion.thinking`), `ground_truth` (`task.answer`), `task` (a `Task`) and `state`
    (`completion.state`), and returns a finite number, or `None` where it does not apply. `maximum` (0 or more) is what
    it returns for a full attempt; to return more is an error. `minimum` is the lowest score that is possible, which
    intervals of the reward need; `None` declares none.

    With `per="turn"` it scores each turn of the model by itself: it is called for every one and may also take `turn`
    (a `Turn`: the message and its results). Such scores are no part of the total. In training a token gets, beside
    the advantage of its attempt, that of the scores of its turn and of the later ones (`rlft.training.advantage`).

    >>> import rlft
    >>> class Capitals(rlft.BaseEnv):
    ...     @rlft.reward(weight=2.0)
    ...     def right(self, text, ground_truth):
    ...         return float(text.strip() == ground_truth)
    >>> Capitals().reward_weights()
    {'right': 2.0}
    """
    if callable(weight):  # written without parentheses
        return reward()(weight)
    for name, value in (("weight", weight), ("maximum", maximum), ("minimum", 0 if minimum is None else minimum)):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise EnvironmentSetupError(f"{name}={value!r} is not a finite number", where="@reward")
    if maximum < 0 or (minimum is not None and minimum > maximum):
        raise EnvironmentSetupError(f"maximum={maximum!r} is below 0 or below the minimum", where="@reward")
    if per not in get_args(Per):
        raise EnvironmentSetupError(f"per={per!r} is unknown", where="@reward", fix='use "attempt" or "turn"')

    def mark(method: Method) -> Method:
        if per == "turn":
            setattr(method, STEP, float(weight))
            return method
        setattr(method, WEIGHT, float(weight))
        setattr(method, MAXIMUM, float(maximum))
        if minimum is not None:
            setattr(method, MINIMUM, float(minimum))
        return method

    return mark


def metric(method: Method) -> Method:
    """Make a method a metric: it is computed and shown like a part of the reward, but its weight is 0.

    It may take the arguments that a reward may take.

    >>> import rlft
    >>> class Capitals(rlft.BaseEnv):
    ...     @rlft.metric
    ...     def words(self, text):
    ...         return len(text.split())
    >>> Capitals().reward_weights()
    {'words': 0.0}
    """
    setattr(method, WEIGHT, 0.0)
    return method


def marked(environment: object, mark: str) -> dict[str, Any]:
    """Return {name: value of the mark} of the methods that have it, in the order of definition, base classes first.

    Takes an environment or its class.
    """
    own = environment if isinstance(environment, type) else type(environment)
    names = dict.fromkeys(name for each in reversed(own.__mro__) for name in vars(each))
    return {name: getattr(method, mark) for name in names if hasattr(method := getattr(own, name, None), mark)}


def marked_tools(environment: object) -> tuple[ToolSpec, ...]:
    """Return the tools made of the environment's marked methods."""
    methods = {name: getattr(environment, name) for name in marked(environment, TOOL)}
    return tuple(replace(tool_from_function(method, hidden=HIDDEN), name=name) for name, method in methods.items())


def marked_weights(environment: object) -> dict[str, float]:
    """Return {part: weight} of the methods that are rewards or metrics. Takes an environment or its class."""
    return marked(environment, WEIGHT)


def marked_steps(environment: object) -> dict[str, float]:
    """Return {part: weight} of the methods that are rewards per turn. Takes an environment or its class."""
    return marked(environment, STEP)


def taken(method: Callable[..., Any], known: dict[str, Any]) -> dict[str, Any]:
    """Return those of the `known` values {name: value} that the method has a parameter for."""
    names = inspect.signature(method).parameters
    return {name: value for name, value in known.items() if name in names}


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
    try:
        parameters = inspect.signature(function, eval_str=True).parameters
    except NameError as error:
        raise EnvironmentSetupError(
            f"a type cannot be read: {error}", where=where, fix="import it outside of `if TYPE_CHECKING`"
        ) from error
    for name, parameter in parameters.items():
        if name in hidden:
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


def _without_titles(schema: Any) -> Any:
    """Return the schema without pydantic's titles, which repeat the names; an argument called `title` stays."""
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_titles(value) for key, value in schema.items() if key != "title" or not isinstance(value, str)
    }


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
