"""Notes of the changes of `champion`, as tags of the registered model: one before the alias is written, one after it.

`rlft.change.<id>` says what is about to happen, `rlft.changed.<id>` that it has. Whoever reads them together with the
alias knows what took place, wherever a writer was killed (`mlops.registry.spells`). A tag for each change cannot be
lost to another client that writes at the same time. Nothing heavy is imported here: `rlft runs` reads these notes, too.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal, Protocol

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from mlops.registry.names import CHANGE_TAG, CHANGED_TAG
from mlops.registry.people import Person

logger = logging.getLogger(__name__)
Kind = Literal["promotion", "approval", "rollback"]
VersionNumber = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,9}$")]
_ID = re.compile(r"[0-9]{6,}\.[0-9a-f]{8}")
_TIME = TypeAdapter(AwareDatetime)


class Change(BaseModel):
    """A change of `champion` from one version to another, which was begun, and has ended where `done` is set.

    `seq` is one more than that of any change that its writer saw, and `unfinished` are the ids of those that it saw
    begun and not ended: so which of two came first is known without trusting the clocks of two machines. `before` is
    what the alias named when it was begun, `None` if nothing. Times are UTC, by the writer's clock. `who` is `None` of
    one that an earlier rlft has made, which noted none of this.
    """

    model_config = ConfigDict(frozen=True)

    id: str = Field(exclude=True)
    seq: int = Field(lt=10**9)
    kind: Kind
    before: VersionNumber | None
    to: VersionNumber
    who: Person | None = None
    at: AwareDatetime
    why: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    done: AwareDatetime | None = Field(default=None, exclude=True)

    @property
    def is_forward(self) -> bool:
        """Whether it has put a new version in the place of another, and taken none back."""
        return self.kind != "rollback"

    @property
    def when(self) -> datetime:
        """When it took place: its end if that was noted, else its beginning."""
        return self.done or self.at


class TagWriter(Protocol):
    """Sets tags of registered models, as `MlflowClient` does."""

    def set_registered_model_tag(self, name: str, key: str, value: str) -> None:
        """Set a tag."""
        ...


def now() -> datetime:
    """Return the time in UTC, to the millisecond."""
    found = datetime.now(UTC)
    return found.replace(microsecond=found.microsecond // 1000 * 1000)


def read_changes(tags: Mapping[str, str]) -> list[Change]:
    """Return the changes that a registered model's tags hold, those first that came first.

    Tags that rlft has not written so are left out, with a warning: whoever can write tags can write these.
    """
    found: list[Change] = []
    for key, kept in tags.items():
        if not key.startswith(CHANGE_TAG):
            continue
        own = key.removeprefix(CHANGE_TAG)
        try:
            if not _ID.fullmatch(own):
                raise ValueError("its name is no id")
            begun = Change.model_validate({**_object(kept), "id": own, "done": _ended(tags, own)})
            found.append(begun)
        except ValueError as wrong:  # ValidationError is one
            why = wrong.errors()[0]["msg"] if isinstance(wrong, ValidationError) else wrong
            logger.warning("the tag %s of the registered model is damaged, and is left out: %s", key[:80], why)
    return in_order(found)


def in_order(changes: Iterable[Change]) -> list[Change]:
    """Return changes in the order in which they count: of those made at once newer versions later, rollbacks last."""
    return sorted(changes, key=lambda change: (change.seq, not change.is_forward, int(change.to), change.id))


def _object(text: str) -> dict[str, object]:
    return TypeAdapter(dict[str, object]).validate_json(text)


def _ended(tags: Mapping[str, str], own: str) -> datetime | None:
    kept = tags.get(CHANGED_TAG + own)
    return None if kept is None else _TIME.validate_python(kept)


def next_change(
    known: list[Change], kind: Kind, before: str | None, to: str, who: Person | None, why: tuple[str, ...] = ()
) -> Change:
    """Return a change that is to be begun after those that are known."""
    seq = 1 + max((each.seq for each in known), default=0)
    ended = max((each.seq for each in known if each.done), default=0)
    unfinished = tuple(each.id for each in known if each.done is None and each.seq > ended)
    own = f"{seq:06d}.{secrets.token_hex(4)}"
    return Change(id=own, seq=seq, kind=kind, before=before, to=to, who=who, at=now(), why=why, unfinished=unfinished)


def note_begin(client: TagWriter, name: str, change: Change) -> None:
    """Note that a change is about to be made."""
    client.set_registered_model_tag(name, CHANGE_TAG + change.id, change.model_dump_json())


def note_end(client: TagWriter, name: str, change: Change) -> None:
    """Note that a change was made."""
    client.set_registered_model_tag(name, CHANGED_TAG + change.id, now().isoformat())
