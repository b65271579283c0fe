"""Makes ZenML's cache keys independent of where the home lies, so that a home that was moved keeps its cache."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mlops.home.folder import find_home


def leave_home_out() -> None:
    """Make ZenML hash the path of an artifact store from the home on, instead of its absolute path.

    ZenML has no setting for it, so its function is wrapped, once a process. Artifact stores elsewhere keep their keys.
    """
    from zenml.orchestrators import cache_utils

    original = cache_utils.generate_cache_key
    if getattr(original, "leaves_home_out", False):
        return

    @wraps(original)
    def generate(step: Any, input_artifacts: Any, artifact_store: Any, project_id: Any) -> str:
        return original(step, input_artifacts, _placeless(artifact_store), project_id)

    generate.leaves_home_out = True  # type: ignore[reportAttributeAccessIssue]
    cache_utils.generate_cache_key = generate


def _placeless(store: Any) -> Any:
    """Return what ZenML's `generate_cache_key` reads of an artifact store, with a path that begins in the home."""
    place, home = Path(store.path), find_home().root
    if not place.is_relative_to(home):
        return store
    relative = place.relative_to(home).as_posix()
    return SimpleNamespace(id=store.id, path=relative, custom_cache_key=store.custom_cache_key)
