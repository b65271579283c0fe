"""What a registered model's tags, versions and alias say of its champions, read from the registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mlflow.entities.model_registry import ModelVersion

from mlops.registry.changes import CHANGE_TAG, CHANGED_TAG, Change, now, read_changes
from mlops.registry.client import RegistryClient
from mlops.registry.names import CHAMPION, DONE_TAG, NOTED_TAG, PROMOTE_TAG, REASONS_TAG
from mlops.registry.spells import Move, find_moves

_READINGS = 5


@dataclass(frozen=True, slots=True)
class Ledger:
    """The changes of `champion` of a registered model, in order, and the version that it named when it was asked."""

    name: str
    champion: str | None
    changes: list[Change]
    asked_at: datetime

    @property
    def moves(self) -> list[Move]:
        """What took place, those moves that nobody noted included."""
        return find_moves(self.changes, self.champion, self.asked_at)

    @property
    def ever(self) -> set[str]:
        """The versions that are champion or were it."""
        return {move.to for move in self.moves if move.to is not None}

    @property
    def newest(self) -> int:
        """The newest version that is champion or was it; 0 if there was none."""
        return max(map(int, self.ever), default=0)


def read_ledger(client: RegistryClient, name: str) -> Ledger:
    """Read what the registry holds of the champions of a model. Raises what MLflow raises."""
    champion, tags = _settled(client, name)
    noted, asked_at = read_changes(tags), now()
    return Ledger(name, champion, [*_unnoted(client, name), *noted], asked_at)


def _settled(client: RegistryClient, name: str) -> tuple[str | None, Mapping[str, str]]:
    """Return what `champion` names and the notes of its changes, read until they are twice the same.

    A registry need not read both at one moment.
    """
    champion, notes = _reading(client, name)
    for _ in range(_READINGS):
        before, (champion, notes) = (champion, notes), _reading(client, name)
        if (champion, notes) == before:
            break
    return champion, notes


def _reading(client: RegistryClient, name: str) -> tuple[str | None, dict[str, str]]:
    model = client.get_registered_model(name)
    champion = model.aliases.get(CHAMPION)
    notes = {key: kept for key, kept in model.tags.items() if key.startswith((CHANGE_TAG, CHANGED_TAG))}
    return None if champion is None else str(champion), notes


def _unnoted(client: RegistryClient, name: str) -> list[Change]:
    """Return the promotions of versions of earlier rlft, which noted no changes, in the order of their numbers.

    When they took place is not known but for when the version was made, and by whom not at all.
    """
    query = f"name = '{name}' AND tags.`{DONE_TAG}` = 'true' AND tags.`{PROMOTE_TAG}` = 'true'"
    found = [version for version in all_versions(client, query) if NOTED_TAG not in version.tags]
    numbers = sorted(int(version.version) for version in found)
    by_number = {int(version.version): version for version in found}
    changes: list[Change] = []
    for place, number in enumerate(numbers):
        version = by_number[number]
        made = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=version.creation_timestamp or 0)
        before = str(numbers[place - 1]) if place else None
        why = tuple(version.tags.get(REASONS_TAG, "").splitlines())
        seq = place - len(numbers) + 1  # up to 0, before all that is noted
        changes.append(
            Change(
                id=f"version {number}",
                seq=seq,
                kind="promotion",
                before=before,
                to=str(number),
                at=made,
                why=why,
                done=made,
            )
        )
    return changes


def all_versions(client: RegistryClient, query: str) -> Iterator[ModelVersion]:
    """Yield every version that a query finds, page by page."""
    token = None
    while True:
        page = client.search_model_versions(query, max_results=1000, page_token=token)
        yield from page
        token = page.token
        if not token:
            return
