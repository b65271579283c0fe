"""What Kubernetes' API asks of a pod beyond its schemas: names and amounts of resources, mounts, and a few words.

`where` is what stands before a place in the errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlft.errors import StackError

SETTINGS = ("orchestrator_pod_settings", "pod_settings")
"""The settings of an orchestrator that describe a pod."""
_RESOURCES = ("cpu", "memory", "ephemeral-storage")  # the API takes others only with a domain: nvidia.com/gpu
_AMOUNT = re.compile(r"\+?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_AS_WRITTEN = 'write it as Kubernetes does: "8", 500m, 64Gi'
_Named = Mapping[str, Any]


def check_resources(resources: _Named, where: str) -> None:
    """Raise StackError for a resource or an amount that the API does not take.

    Of devices, such as GPUs, it takes whole numbers, and as many in requests as in limits.
    """
    from kubernetes.utils.quantity import parse_quantity

    amounts: dict[str, dict[str, Any]] = {kind: dict(resources.get(kind) or {}) for kind in ("requests", "limits")}
    for kind, each in amounts.items():
        for name, amount in each.items():
            _check_name(name, f"{where}.{kind}")
            check_amount(amount, name, f"{where}.{kind}")
            if "/" in name and parse_quantity(amount) % 1:
                raise StackError(f"there is no part of a {name}", where=f"{where}.{kind}", fix="ask for whole ones")
    for name, asked in amounts["requests"].items():
        limit = amounts["limits"].get(name)
        if "/" in name and (limit is None or parse_quantity(limit) != parse_quantity(asked)):
            fix = f"write limits: {{{name}: {asked!r}}}, too"
            raise StackError(f"requests of {name} must be as many as limits", where=where, fix=fix)
        if limit is not None and parse_quantity(asked) > parse_quantity(limit):
            raise StackError(f"more {name} is requested than the limit allows", where=where, fix="raise the limit")


def check_amount(amount: Any, name: str, where: str) -> None:
    """Raise StackError unless an amount is written as the API reads it."""
    if not _AMOUNT.fullmatch(str(amount)):
        raise StackError(f"{amount!r} is no amount of {name}", where=where, fix=_AS_WRITTEN)


def check_volumes(volumes: Sequence[_Named], where: str) -> None:
    """Raise StackError for a volume that has no source or several, or in memory of an unknown kind or size."""
    for volume in volumes:
        sources = sorted(set(volume) - {"name"})
        if len(sources) > 1:
            what = f"the volume {volume['name']} has several sources: {', '.join(sources)}"
            raise StackError(what, where=where, fix="give each volume one")
        if found := volume.get("emptyDir"):
            if not re.fullmatch(r"(Memory|HugePages.*)?", medium := str(found.get("medium") or "")):
                raise StackError(f"emptyDir has no medium {medium}", where=where, fix="write Memory, or leave it out")
            if "sizeLimit" in found:
                check_amount(found["sizeLimit"], "memory", f"{where}: {volume['name']}")


def check_mounts(mounts: Sequence[_Named], volumes: Sequence[_Named], where: str) -> None:
    """Raise StackError for a mount whose volume is not there, or at a place that has one already."""
    there, places = {volume["name"] for volume in volumes}, set[str]()
    for mount in mounts:
        if mount["name"] not in there:
            raise StackError(
                f"no volume is named {mount['name']!r}, which is mounted at {mount['mountPath']}",
                where=where,
                fix=f"name one of volumes: {', '.join(sorted(there)) or 'there is none'}",
            )
        if mount["mountPath"] in places:
            fix = "give each mount a place of its own"
            raise StackError(f"two volumes are mounted at {mount['mountPath']}", where=where, fix=fix)
        places.add(mount["mountPath"])


def check_tolerations(tolerations: Sequence[_Named], where: str) -> None:
    """Raise StackError for an effect or an operator that the API does not know."""
    for each in tolerations:
        if (effect := each.get("effect")) and effect not in _EFFECTS:
            raise StackError(f"no taint has the effect {effect}", where=where, fix=f"write {', '.join(_EFFECTS)}")
        if (operator := each.get("operator")) and operator not in ("Exists", "Equal", "Lt", "Gt"):
            raise StackError(f"a toleration has no operator {operator}", where=where, fix="write Exists or Equal")


def texts_of(value: Any) -> Iterator[str]:
    """Yield all texts of nested lists and maps but their keys."""
    if isinstance(value, str):
        yield value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for each in inner:
        yield from texts_of(each)


def _check_name(name: str, where: str) -> None:
    if "/" not in name and name not in _RESOURCES and not name.startswith("hugepages-"):
        has = f"it has {', '.join(_RESOURCES)}, and devices with their domain, such as nvidia.com/gpu"
        raise StackError(f"Kubernetes has no resource {name}", where=where, fix=has)
