"""Cache keys of a home's own artifact store, wherever the home lies."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mlops.home.folder import find_home


def leave_home_out() -> None:
    """Make ZenML hash the place of an artifact store within the home, not that of the home: then it can be moved.

    ZenML has no setting for it. Other artifact stores keep their keys.
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
    """What a key is made of (see ZenML's `generate_cache_key`), with the path from the home on."""
    place, home = Path(store.path), find_home().root
    if not place.is_relative_to(home):
        return store
    relative = place.relative_to(home).as_posix()
    return SimpleNamespace(id=store.id, path=relative, custom_cache_key=store.custom_cache_key)
