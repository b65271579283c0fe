"""What the two processes say to each other: errors arrive, also those that cannot be made again."""

from __future__ import annotations

import pytest

from rlft.distributed.messages import Failed
from rlft.errors import DamagedError


class Needy(Exception):
    """Pickles, and cannot be made again from its one argument."""

    def __init__(self, place: str, number: int) -> None:
        super().__init__(f"{place} has {number}")


class Held(Exception):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("it holds a function")
        self.function = lambda: None


def test_an_error_arrives_as_it_was():
    ours = DamagedError("it is damaged", where="file", run="one", step="train_grpo_r001")
    found = Failed.by(ours).error()
    assert isinstance(found, DamagedError)
    assert (str(found), found.run) == (str(ours), "one")
    other = ValueError("no number")
    other.add_note("in a trainer")
    again = Failed.by(other).error()
    assert type(again) is ValueError
    assert (again.args, again.__notes__) == (("no number",), ["in a trainer"])


@pytest.mark.parametrize(
    ("error", "text"), [(Needy("t0", 3), "Needy: t0 has 3"), (Held(), "Held: it holds a function")]
)
def test_one_that_cannot_be_made_again_arrives_in_words(error, text):
    error.add_note("in a trainer")
    found = Failed.by(error).error()
    assert type(found) is RuntimeError
    assert str(found) == text
    assert found.__notes__ == ["in a trainer"]
