"""Refuses secrets in a stack file: ZenML keeps a component's settings as they are, for all who share it to read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mlops.tracking.address import NO_AUTHENTICATION
from rlft.errors import StackError
from rlft.files import texts_in
from rlft.secrets import find_secrets

SETTINGS = ("orchestrator_pod_settings", "pod_settings")
"""The settings of an orchestrator that describe a pod."""
WAY_OUT_OF_PODS = (
    "take it from a secret of the cluster: env_from, or valueFrom: {secretKeyRef: {name: NAME, key: KEY}} of a variable"
)
_WAY_OUT = (
    "put it into a secret of ZenML, `zenml secret create NAME --interactive` (with --private for yourself alone), and "
    "write {{NAME.KEY}} in the file"
)


def check_variables(variables: Mapping[str, str], where: str) -> None:
    """Raise StackError for a variable that holds a secret, by its name or its value, and would stand in a stack."""
    if secret := sorted(name for name, value in variables.items() if find_secrets({name: value})):
        named = ", ".join(f"${{{name}}}" for name in secret)
        what = f"{named}: what looks like a secret would stand in ZenML's registry"
        raise StackError(f"{what}, which shows it to all who share the stack", where=where, fix=_WAY_OUT)


def check_settings(config: Mapping[str, Any], properties: Mapping[str, Any], where: str) -> None:
    """Raise StackError for settings of a component that hold a secret in the clear.

    `properties` is what the JSON schema of its flavor says of each: ZenML marks those that are for secrets.
    """
    own = {name: _of_pod(each) if each and name in SETTINGS else each for name, each in _own(config).items()}
    found = [key for key in own if properties.get(key, {}).get("sensitive") and "username" not in key and own[key]]
    if found := list(dict.fromkeys([*found, *find_secrets(own)])):
        places = ", ".join(f"{where}.{key}" for key in found)
        what = "this would stand in ZenML's registry in the clear, for all who share the stack"
        is_of_pod = any(key.split(".")[0] in SETTINGS for key in found)
        raise StackError(what, where=places, fix=WAY_OUT_OF_PODS if is_of_pod else _WAY_OUT)


def _of_pod(settings: Any) -> dict[str, Any]:
    """Return what of a pod's settings may hold a secret: its variables and annotations by name, and all texts.

    Names there are Kubernetes' own: the `key` of a label or of a secret is none.
    """
    env = {each.get("name", ""): each.get("value") for each in settings.get("env") or ()}
    return {"env": env, "annotations": settings.get("annotations"), "texts": list(texts_in(settings))}


def _own(value: Any) -> Any:
    """Return a copy of nested lists and maps without the references to secrets, and what stands for no login."""
    if isinstance(value, str):
        return re.sub(r"\{\{[^{}]*\}\}", "", "" if value == NO_AUTHENTICATION else value)
    if isinstance(value, Mapping):
        return {key: _own(each) for key, each in value.items()}
    return [_own(each) for each in value] if isinstance(value, list) else value
