"""Reads YAML as configs are written: `1e-4` is a number and `no` a text, no key is given twice, no text has no end.

What is written here is read as it was.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from rlft.texts.characters import visible
from rlft.texts.secrets import redact

MOST_VALUES = 50_000
"""So many values and keys may a text stand for. Ten lines of aliases to aliases stand for billions."""
MOST_CHARACTERS = 10_000_000
"""So many characters may its texts have together, each counted as often as an alias stands for it."""


class _Loader(yaml.SafeLoader):
    """Loads YAML, but reads `1e-4` as a number, which YAML 1.1 takes for text, and refuses repeated keys.

    As in YAML 1.2, `no`, `yes`, `on`, `off`, `012` and `1:30` are texts, which YAML 1.1 takes for values.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        # A merge key (`<<`) may be repeated, and may bring keys that the mapping overrides.
        written = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        seen: set[str] = set()
        for key in written:
            text = repr(self.construct_object(key, deep=True))  # type: ignore[reportUnknownMemberType]
            if text in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key given twice: {text:.80}", key.start_mark)
            seen.add(text)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Writes YAML for `_Loader`: a text such as `1e5` is put in quotes, and one of several lines stands as a block."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Return a text as a node; PyYAML puts one in quotes that a block cannot hold, such as one with tabs."""
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
for _class in (_Loader, _Dumper):
    # A copy, since `add_implicit_resolver` would otherwise add to the lists of the class above it.
    _class.yaml_implicit_resolvers = {key: list(value) for key, value in _class.yaml_implicit_resolvers.items()}
    _class.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )
_TEXT = re.compile(r"^(?:yes|no|on|off|[-+]?(?:0[0-9_]+|[0-9][0-9_]*:.*))$", re.IGNORECASE)
for _known in _Loader.yaml_implicit_resolvers.values():
    _known.insert(0, ("tag:yaml.org,2002:str", _TEXT))  # the first that matches decides


def write_yaml(content: Any, *, width: int = 120) -> str:
    """Return plain values as a YAML text, which `read_yaml` takes for the same values.

    Letters stand as they are, unless a text holds what a terminal must not show: then all but ASCII is escaped.
    """

    def dumped(*, allow_unicode: bool) -> str:
        return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=allow_unicode, width=width)

    text = dumped(allow_unicode=True)
    return text if visible(text) == text else dumped(allow_unicode=False)


def read_yaml(text: str) -> Any:
    """Return what a YAML text holds. Raises ValueError, which says what is wrong and where, without the line itself.

    Its size is looked at before anything is made of it, as an alias is a few letters and stands for much.
    """
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check_size(node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as cause:  # ValueError: a date such as 2026-13-01, or a number without end
        raise ValueError(yaml_problem(cause)) from cause
    except (KeyError, AttributeError, TypeError, OverflowError) as cause:  # as PyYAML leaves `!!bool 7`
        raise ValueError(f"a tag (`!!`) does not fit the value behind it ({type(cause).__name__})") from cause


def _check_size(node: yaml.Node) -> None:
    """Raise ValueError if the node stands for more than may be, in values or characters, or is a part of itself."""
    sizes: dict[int, tuple[int, int] | None] = {}  # by id; `None` while the parts of a node are counted

    def size(node: yaml.Node) -> tuple[int, int]:
        if id(node) in sizes:
            known = sizes[id(node)]
            if known is None:
                raise ValueError("an alias stands within what it stands for, which has no end")
            return known
        sizes[id(node)] = None
        parts: Any = node.value if isinstance(node, yaml.CollectionNode) else ()
        flat = [each for part in parts for each in (part if isinstance(part, tuple) else (part,))]
        found = [size(each) for each in flat]
        own = len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        total = sizes[id(node)] = 1 + sum(values for values, _ in found), own + sum(texts for _, texts in found)
        return total

    values, characters = size(node)
    if values > MOST_VALUES:
        raise ValueError(f"it stands for more than {MOST_VALUES:,} values; put data into a file of its own")
    if characters > MOST_CHARACTERS:
        raise ValueError(f"its texts stand for more than {MOST_CHARACTERS:,} characters; write a long text once")


def yaml_problem(cause: Exception) -> str:
    """Say what is wrong with a YAML text and where, without the line itself, which may hold a secret."""
    if isinstance(cause, yaml.MarkedYAMLError) and cause.problem_mark:
        mark = cause.problem_mark
        return f"{cause.problem}, line {mark.line + 1}, column {mark.column + 1}"
    return redact(str(cause))
