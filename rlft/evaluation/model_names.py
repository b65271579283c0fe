"""Parses what a person names as a model to be evaluated, and tells whether a folder can be one. Nothing is loaded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rlft.config.section import check_address, check_model_name, check_name, check_path
from rlft.errors import ConfigError
from rlft.files import expanded

Kind = Literal["weights", "registry", "run", "endpoint"]
FORMS = (
    "a hub name (Qwen/Qwen2.5-0.5B-Instruct, with @REVISION if need be), a folder (./model), models:/NAME@ALIAS, "
    "models:/NAME/VERSION, RUN:best, RUN:base, RUN:start, RUN:round=20, or openai:MODEL@URL"
)
_PATTERNS: dict[Kind, str] = {
    "endpoint": r"openai:(?P<name>.+)@(?P<address>.+)",
    "registry": r"models:/(?P<name>[^/@]+)(@(?P<alias>[^/@]+)|/(?P<version>[1-9][0-9]{0,17}))",
    "run": r"(?P<name>[^/.~].*):((?P<policy>best|base|start)|round=(?P<round>[1-9][0-9]{0,8}))",
    "weights": r"(?P<name>(/|\.{1,2}/|~/).*|\.{1,2})|(?P<hub>[^@:]+)(@(?P<revision>.+))?",
}


@dataclass(frozen=True, slots=True)
class ModelName:
    """What a model is named by; `text` is as it was written, and the other fields depend on `kind`.

    - `weights`: `name` is a hub name or a folder, `revision` its branch, tag or commit if one is given
    - `registry`: `name` is that of the registered model, with either `alias` or `version`
    - `run`: `name` is that of a run, or its id; `policy` is `best`, `base` (before a warm start), `start` (that which
      training began with) or `round`, and then `round` is the number of rounds that were done
    - `endpoint`: `name` is what the server calls it, `address` where the server is
    """

    text: str
    kind: Kind
    name: str
    revision: str | None = None
    alias: str | None = None
    version: str | None = None
    policy: str | None = None
    round: int | None = None
    address: str | None = None


def parse_model(text: str) -> ModelName:
    """Return what a text names. Raises ConfigError, which says the forms that there are.

    A text with a colon is never a hub name or a folder, unless it begins like a path (`/`, `./`, `../`, `~/`).
    """
    try:
        check_path(text)
        for kind, pattern in _PATTERNS.items():
            if found := re.fullmatch(pattern, text):
                return _checked(text, kind, {name: part for name, part in found.groupdict().items() if part})
        raise ValueError("it has none of the forms of a model's name")
    except ValueError as wrong:
        raise ConfigError(str(wrong), where=f"MODEL {text!r:.120}", fix=f"name {FORMS}") from None


def _checked(text: str, kind: Kind, parts: dict[str, Any]) -> ModelName:
    """Return the model of these parts. Raises ValueError for a part that cannot be what it stands for."""
    for part in {"hub", "revision", "alias"} & parts.keys():
        check_name(parts[part], slashes=part != "alias")
    if kind == "endpoint":
        parts["address"] = check_address(parts["address"], path="/v1")
    if kind == "registry":
        check_model_name(parts["name"])
    if kind == "run":
        check_name(parts["name"])
    name, number = parts.pop("hub", "") or parts.pop("name"), parts.pop("round", None)
    if number is None:
        return ModelName(text, kind, name, **parts)
    return ModelName(text, kind, name, policy="round", round=int(number))


def labels_of(models: Sequence[ModelName]) -> list[str]:
    """Return a label for each model, all different: letters, digits, `_`, `.` and `-`, at most 60 characters.

    It is what stands behind the last slash or the scheme, so that a person knows it again.
    """
    labels: list[str] = []
    for model in models:
        label = plain = _label(model)
        number = 2
        while label in labels:
            label, number = f"{plain[:56]}-{number}", number + 1
        labels.append(label)
    return labels


def _label(model: ModelName) -> str:
    short = model.name.rstrip("/").rsplit("/", 1)[-1]
    which = {"registry": model.alias or model.version, "run": model.policy, "weights": model.revision, "endpoint": None}
    suffix = f"round{model.round}" if model.round is not None else which[model.kind]
    label = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{short}-{suffix}" if suffix else short).strip("_.-")
    return label[-60:].lstrip("_.-") or "model"


POLICY = "policy.json"  # of a folder that rlft has written a policy to


def is_policy_folder(folder: Path) -> bool:
    """Return whether rlft has written a policy to this folder."""
    return (folder / POLICY).is_file()


def check_model_folder(name: str) -> None:
    """Raise ConfigError for a path at which no folder with a model is; a name that is no path may be one of the Hub."""
    folder = expanded(name)
    if not folder.is_dir():
        if name.startswith((".", "/", "~")):
            raise ConfigError("there is no such folder", fix="name the folder of a model, or its name on the Hub")
        return
    if not is_policy_folder(folder) and not (folder / "config.json").is_file():
        raise ConfigError(
            "the folder holds no model: config.json is missing",
            fix="name a folder with config.json, tokenizer and *.safetensors, or a policy folder with policy.json; "
            "an adapter is named by its run or registered version",
        )
