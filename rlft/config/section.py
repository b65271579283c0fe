"""What all sections of a config share: their base class, bounds of numbers, checks of names, addresses and secrets.

Beyond a bound is a mistake in typing, or what no machine computes in a lifetime.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from rlft.texts.secrets import find_secrets, find_shown_secrets

MOST = 1_000_000
"""The most tasks, rollouts, rounds, tokens or steps that a setting may count."""
LARGEST_SEED = 2**32 - 1
"""The largest seed that numpy and torch both take."""
LONGEST_SECONDS = 604_800.0
"""A week, the longest that anything is waited for."""
LARGEST_WEIGHT = 1e6
"""The largest weight of a part of a reward; sums of much larger ones lose their small parts to rounding."""
COLDEST, HOTTEST = 0.01, 100.0
"""The lowest and the highest temperature at which tokens are sampled: logits divided by less overflow."""
LONGEST_NAME = 200
LONGEST_PATH = 4000
SPECIFICATION = "_specification_"
"""The argument of an environment that holds the specification of its reward, as JSON text."""
SEVERAL = "rlft.environments.contract.several:Several"
"""The environment of a config that has several: its argument `members` holds the name and the arguments of each."""


class Section(BaseModel):
    """Base of all sections, which takes no unknown keys, converts no types, refuses NaN and infinity, and is frozen."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,  # the input may be a secret
    )


def refuse_changed(section: Section, names: Iterable[str], reason: str) -> None:
    """Raise ValueError if one of the named settings, which do nothing for this reason, differs from its default."""
    for name in names:
        value, default = getattr(section, name), type(section).model_fields[name].default
        if value != default:
            default = "null" if default is None else default
            raise ValueError(f"{name}={value} does nothing with {reason}; leave it at its default, {default}")


def check_name(name: str, *, slashes: bool = False) -> str:
    """Return the name. Raises ValueError if it cannot be a file's name, a part of an address and a cell of a table.

    `slashes` allows names in folders, such as `team/experiment`.
    """
    if not name or len(name) > LONGEST_NAME:
        raise ValueError(f"a name has 1 to {LONGEST_NAME} characters, this one {len(name)}")
    if not name.isprintable():  # control characters, and those that turn the direction of writing
        raise ValueError(f"{name!r:.80} holds a character that cannot be seen; remove it")
    if refused := sorted(set(name) & set("\\:" if slashes else "/\\:")):
        raise ValueError(f"{name!r} holds {' and '.join(refused)}; use letters, digits, spaces, dots, - and _")
    for part in name.split("/"):
        if part in ("", ".", ".."):
            raise ValueError(f"{name!r} leads elsewhere as a path; write it without empty parts, . and ..")
        if part != part.strip() or part.startswith("-"):
            raise ValueError(f"{name!r}: begin with a letter or digit, and let no space stand at an end")
    return name


def check_plain_name(name: str) -> str:
    """Return a name of letters, digits, `_`, `.` and `-`. Raises ValueError for any other."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise ValueError(f"{name!r:.80} is no name: use letters, digits, _, . and -, and begin with a letter or digit")
    return name


def check_model_name(name: str) -> str:
    """Return the name of a registered model. Raises ValueError for one that MLflow or ZenML would read otherwise."""
    if refused := sorted(set(check_name(name)) & set("'@?#%{}")):
        raise ValueError(
            f"{name!r} holds {' and '.join(refused)}, which mean something where models are addressed "
            "(models:/NAME@ALIAS) or looked for (name = 'NAME'); use letters, digits, spaces, dots, - and _"
        )
    return name


def check_text(text: str) -> str:
    """Return a text. Raises ValueError for one without a character that can be seen."""
    if not text.strip():
        raise ValueError("it is empty; write something, or remove the setting")
    return text


def check_path(path: str) -> str:
    """Return the path of a file or folder, `~` at its begin replaced by the user's folder, or a name on the Hub.

    Raises ValueError if it cannot be one.
    """
    if not check_text(path).isprintable():
        raise ValueError(f"{path!r:.80} holds a character that cannot be seen; remove it")
    if len(path) > LONGEST_PATH:
        raise ValueError(f"a path has at most {LONGEST_PATH} characters, this one {len(path)}")
    return os.path.expanduser(path)


def is_import_path(name: str) -> bool:
    """Return whether a name is written as the path of a class: `package.module:Class` or `path/to/file.py:Class`."""
    return re.fullmatch(r"[^:]+:[A-Za-z_][A-Za-z_0-9]*", name) is not None


def check_address(address: str, *, path: str = "") -> str:
    """Return the address of a server without a slash at its end. Raises ValueError for one that is none of HTTP.

    With a `path`, such as `/v1`, the address may have one, too, and this is the example. The text shows no password.
    """
    example = f"http://127.0.0.1:8000{path}"
    if "@" in address:
        raise ValueError(f"what has an @, and may hold a password, is no address such as {example}")
    try:
        parts = urlsplit(address)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        fits = fits and (bool(path) or parts.path in ("", "/")) and not set(address) & set("?#\\ ")
    except ValueError:  # brackets or a port that make no sense
        fits = False
    if not fits or not address.isprintable():
        raise ValueError(f"{address!r} is no address such as {example}")
    return address.rstrip("/")


def refuse_secrets(content: Any) -> Any:
    """Return settings. Raises ValueError, which names the places, if they hold what looks like a secret.

    In a specification of the reward, whose names and texts are about attempts, only what is a secret by its own form
    counts: a criterion may be called `password`.
    """
    settings, specifications = _apart(content, "")
    if found := find_secrets(settings):
        raise ValueError(
            f"{', '.join(found)}: looks like a secret, and would be stored with the run; put it into a variable of "
            "the environment and write env:NAME, or {env:NAME} within a text (so too if it is none)"
        )
    if found := [place for path, each in specifications.items() for place in find_shown_secrets(each, path)]:
        raise ValueError(
            f"{', '.join(found)}: looks like a secret, and would be stored with the run; take it out, or write it "
            "otherwise if it is none"
        )
    return content


def _apart(content: Any, path: str) -> tuple[Any, dict[str, Any]]:
    """Return settings without specifications of a reward but for their judges, and the specifications by their paths.

    What an environment has in `kwargs` was made of them.
    """
    if isinstance(content, list | tuple):
        parts = [_apart(each, f"{path}[{place}]") for place, each in enumerate(content)]
        return [rest for rest, _ in parts], {place: each for _, found in parts for place, each in found.items()}
    if not isinstance(content, Mapping):
        return content, {}
    settings, specifications = dict[str, Any](), dict[str, Any]()
    for key, value in content.items():
        place = f"{path}.{key}" if path else str(key)
        if place.endswith("reward.spec") and isinstance(value, Mapping):
            settings[key] = {"judge": value.get("judge")}
            specifications[place] = {name: each for name, each in value.items() if name != "judge"}
        elif not place.endswith(f"kwargs.{SPECIFICATION}"):
            settings[key], found = _apart(value, place)
            specifications |= found
    return settings, specifications


def check_import_path(name: str) -> str:
    """Return the name of a class. Raises ValueError for one that is not written as `is_import_path` says."""
    if not is_import_path(name) or not name.isprintable():
        raise ValueError(f"{name!r:.80} names no class; write capitals.py:Capitals or package.module:Capitals")
    return name


if TYPE_CHECKING:
    Plain = Any
else:
    Plain = JsonValue
"""A value as JSON holds it, within settings that a class of the user's takes."""
ImportPath = Annotated[str, AfterValidator(check_import_path)]
"""A setting that is the path of a class."""
PlainName = Annotated[str, Field(max_length=LONGEST_NAME), AfterValidator(check_plain_name)]
"""A setting that is a name of letters, digits, `_`, `.` and `-`."""
Name = Annotated[str, AfterValidator(check_name)]
"""A setting that is one name, as `check_name` takes it."""
FolderName = Annotated[str, AfterValidator(partial(check_name, slashes=True))]
"""A setting that is a name and may have slashes in it."""
ModelName = Annotated[str, AfterValidator(check_model_name)]
"""A setting that is the name of a registered model."""
Text = Annotated[str, AfterValidator(check_text)]
"""A setting that is a text with something in it, such as a template or the name of a column."""
PathText = Annotated[str, AfterValidator(check_path)]
"""A setting that is the path of a file or folder, or a name on the Hub."""
