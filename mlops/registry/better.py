"""Whether a version that was not promoted did better at the same gate than one that a person decides about.

That happens where a good warm start is not surpassed: the version equals it, fails, and a later one with a weaker warm
start passes.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlflow.entities.model_registry import ModelVersion

from mlops.registry.client import RegistryClient
from mlops.registry.ledger import all_versions
from mlops.registry.names import DECIDED_TAG, PROMOTE_TAG, SCORE_TAG


def score_tag(metric: str, score: float) -> dict[str, str]:
    """Return the tag of a version that holds its mean on the gate in the metric that decides."""
    return {f"{SCORE_TAG}{metric}": repr(round(score, 4))}


def note_better(client: RegistryClient, version: ModelVersion) -> str:
    """Return in a sentence which version that failed the same gate had the highest score there, if it was higher.

    It is empty without one, and where the tags of the versions do not tell. Raises what MLflow raises.
    """
    own = _score(version.tags)
    if own is None:
        return ""
    query = f"name = '{version.name}' AND tags.`{PROMOTE_TAG}` = 'false'"
    failed = [(each, _score(each.tags)) for each in all_versions(client, query)]
    better = [
        (found[2], each.version) for each, found in failed if found and found[:2] == own[:2] and found[2] > own[2]
    ]
    if not better:
        return ""
    score, number = max(better, key=lambda each: each[0])
    return f"note: version {number}, not promoted, had {score:.3f} on the same gate; this one has {own[2]:.3f}"


def _score(tags: Mapping[str, str]) -> tuple[str, str, float] | None:
    """Return the gate that a version was decided about at, the metric, and its mean there; `None` if not known."""
    gate = tags.get(DECIDED_TAG, "").rpartition(".")[0]
    found = [(key, kept) for key, kept in tags.items() if key.startswith(SCORE_TAG)]
    if not gate or len(found) != 1:
        return None
    try:
        return gate, found[0][0], float(found[0][1])
    except ValueError:  # somebody has changed it
        return None
