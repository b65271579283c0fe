"""Parses what a person names as a model to be evaluated, and tells whether a folder can be one. Nothing is loaded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rlft.config.section import check_address, check_model_name, check_name, check_path
from rlft.errors import ConfigError
from rlft.files import expanded

Kind = Literal["weights", "registry", "run", "endpoint"]
FORMS = (
    "a hub name (Qwen/Qwen2.5-0.5B-Instruct, with @REVISION if need be), a folder (./model), models:/NAME@ALIAS, "
    "models:/NAME/VERSION, RUN:best, RUN:base, RUN:start, RUN:round=20, or openai:MODEL@URL"
)
_POLICIES = ("best", "base", "start")


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
        if text.startswith("openai:"):
            return _endpoint(text)
        if text.startswith("models:"):
            return _registered(text)
        if re.match(r"(/|\.{1,2}/|~/|\.{1,2}$)", text):
            return ModelName(text, "weights", text)
        if ":" in text:
            return _of_run(text)
        return _weights(text)
    except ValueError as wrong:
        raise ConfigError(str(wrong), where=f"MODEL {text!r:.120}", fix=f"name {FORMS}") from None


def _weights(text: str) -> ModelName:
    name, at, revision = text.partition("@")
    if at and not revision:
        raise ValueError("nothing stands behind the @, where a revision belongs")
    for part in (name, revision) if at else (name,):
        check_name(part, slashes=True)
    return ModelName(text, "weights", name, revision=revision or None)


def _endpoint(text: str) -> ModelName:
    name, at, address = text.removeprefix("openai:").rpartition("@")
    if not at or not name:
        raise ValueError("a model behind an address is written openai:MODEL@URL")
    return ModelName(text, "endpoint", name, address=check_address(address, path="/v1"))


def _registered(text: str) -> ModelName:
    found = re.fullmatch(r"models:/([^/@]+)(?:@([^/@]+)|/([^/@]+))", text)
    if found is None:
        raise ValueError("a registered model is written models:/NAME@ALIAS or models:/NAME/VERSION")
    name, alias, version = found.groups()
    check_model_name(name)
    if version is not None and not re.fullmatch(r"[1-9][0-9]{0,17}", version):
        raise ValueError(f"{version!r} is no version, which is a number from 1")
    if alias is not None:
        check_name(alias)
    return ModelName(text, "registry", name, alias=alias, version=version)


def _of_run(text: str) -> ModelName:
    run, _, policy = text.rpartition(":")
    check_name(run)
    if policy in _POLICIES:
        return ModelName(text, "run", run, policy=policy)
    number = re.fullmatch(r"round=([0-9]{1,9})", policy)
    if number is None or int(number[1]) == 0:
        raise ValueError(
            f"{policy!r:.80} names no policy of a run; write RUN:best, RUN:base, RUN:start, or RUN:round=20 for that "
            "after 20 rounds"
        )
    return ModelName(text, "run", run, policy="round", round=int(number[1]))


def labels_of(models: Sequence[ModelName]) -> list[str]:
    """Return a label for each model, all different: letters, digits, `_`, `.` and `-`, at most 60 characters.

    It is what stands behind the last slash or the scheme, so that a person knows it again. Raises ConfigError for a
    model that is named twice.
    """
    seen: set[str] = set()
    labels: list[str] = []
    for model in models:
        if model.text in seen:
            raise ConfigError("the model is named twice", where=f"MODEL {model.text!r:.120}", fix="name it once")
        seen.add(model.text)
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
    if is_policy_folder(folder) or (folder / "config.json").is_file():
        return
    if (folder / "adapter_config.json").is_file():
        raise ConfigError(
            "the folder holds an adapter without its base model",
            fix="name the run or the registered version that it is of, or a folder with the merged weights",
        )
    raise ConfigError(
        "the folder holds no model: config.json is missing",
        fix="name a folder with config.json, tokenizer and *.safetensors, or a policy folder, which has policy.json",
    )
