"""Lets ZenML read artifacts with rlft's own materializers alone, and into rlft's own types.

A database names the class that reads each of its artifacts, and ZenML would import and call any. One that unpickles
would run whatever code a home brings that came from somebody else.
"""

from __future__ import annotations

from typing import Any

from rlft.errors import DamagedError

_FROM_STORE = "notebook"  # the kind of class whose code ZenML takes from the artifact store
_PAGE = ("zenml.types", "HTMLString")


def read_with_own_alone() -> None:
    """Make ZenML refuse the artifacts of other materializers and types with DamagedError.

    ZenML has no setting for it, so what it asks of an artifact before it reads one is wrapped, once a process: on
    behalf of the steps as of whoever calls `load`.
    """
    from zenml.models import ArtifactVersionResponse

    if getattr(ArtifactVersionResponse, "is_read_by_own_alone", False):
        return
    own = {"materializer": _is_materializer, "data_type": _is_type}
    for name, is_own in own.items():
        setattr(ArtifactVersionResponse, name, property(_checked(name, is_own)))
    ArtifactVersionResponse.is_read_by_own_alone = True  # type: ignore[reportAttributeAccessIssue]


def _checked(name: str, is_own: Any) -> Any:
    def checked(artifact: Any) -> Any:
        source = getattr(artifact.get_body(), name)
        if source.type.value == _FROM_STORE or not is_own(source.module, source.attribute or ""):
            what = f"this artifact is not read: its {name} is {source.import_path!r:.200}, which is none of rlft's"
            raise DamagedError(what, where=artifact.uri)
        return source

    return checked


def _is_materializer(module: str, attribute: str) -> bool:
    return module.startswith("materializers.") and attribute.endswith("Materializer")


def _is_type(module: str, attribute: str) -> bool:
    return module.startswith("rlft.") or (module, attribute) == _PAGE
