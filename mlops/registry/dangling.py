"""What is said of an alias that names a version which does not exist any more; nothing heavy is imported for it."""

from __future__ import annotations

from shlex import quote

from rlft.errors import TrackerError


def no_version(name: str, alias: str, version: str) -> TrackerError:
    """Return the error that an alias of a registered model names a version that is not there."""
    back = f"`rlft rollback {quote(name)} --to VERSION` lets it name an earlier champion, or " * (alias == "champion")
    return TrackerError(
        f"the alias {alias!r} names version {version}, which does not exist any more",
        where=f"models:/{name}",
        fix=f"{back}remove the alias or give it to another version, on the page of the model in MLflow (`rlft ui`)",
    )
