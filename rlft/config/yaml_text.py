"""Reads YAML as configs are written: `1e-4` is a number and `no` a text, and no key is given twice.

What is written here is read as it was.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.composer import ComposerError

from rlft.texts.characters import visible
from rlft.texts.secrets import redact


class _Loader(yaml.SafeLoader):
    """Loads YAML, but reads `1e-4` as a number, which YAML 1.1 takes for text, and refuses repeated keys.

    As in YAML 1.2, `no`, `yes`, `on`, `off`, `012` and `1:30` are texts, which YAML 1.1 takes for values.
    """

    aliases = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Refuse an alias within what another alias stands for: ten lines of these stand for billions of values."""
        is_alias = self.check_event(yaml.AliasEvent)
        anchored = not is_alias and self.peek_event().anchor
        before, self.aliases = self.aliases, self.aliases + is_alias
        node = super().compose_node(parent, index)
        if anchored and self.aliases > before:
            mark = node and node.start_mark
            raise ComposerError(None, None, "an alias stands within what an alias stands for", mark)
        return node

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
    """Return what a YAML text holds.

    Raises ValueError, which says what is wrong and where, without the line itself, as that may hold a secret.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as cause:
        mark = cause.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ValueError(f"{cause.problem}{place}") from cause
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as cause:  # ValueError: a date such as 2026-13-01
        raise ValueError(redact(str(cause))) from cause
    except (KeyError, AttributeError, TypeError, OverflowError) as cause:  # as PyYAML leaves `!!bool 7`
        raise ValueError(f"a tag (`!!`) does not fit the value behind it ({type(cause).__name__})") from cause
