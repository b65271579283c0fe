"""What arrives of an error in the process that uses Ray, whatever it can be made of again."""

from __future__ import annotations

from multiprocessing import Pipe

import pytest

from rlft.errors import DamagedError
from rlft.training.distributed.director import Failed


class Needy(Exception):
    """Pickles, and cannot be made again from its one argument."""

    def __init__(self, place: str, number: int) -> None:
        super().__init__(f"{place} has {number}")


class Held(Exception):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("it holds a function")
        self.function = lambda: None


def arrived(error: Exception) -> Exception:
    here, there = Pipe()
    here.send(Failed.by(error))
    return there.recv().error


def test_an_error_arrives_as_it_was():
    ours = DamagedError("it is damaged", where="file", run="one", step="train_grpo_r001")
    found = arrived(ours)
    assert isinstance(found, DamagedError)
    assert (str(found), found.run) == (str(ours), "one")
    other = ValueError("no number")
    other.add_note("in a trainer")
    again = arrived(other)
    assert type(again) is ValueError
    assert (again.args, again.__notes__) == (("no number",), ["in a trainer"])


@pytest.mark.parametrize(
    ("error", "text"), [(Needy("t0", 3), "Needy: t0 has 3"), (Held(), "Held: it holds a function")]
)
def test_one_of_a_class_of_others_arrives_in_words(error, text):
    error.add_note("in a trainer")
    found = arrived(error)
    assert type(found) is RuntimeError
    assert str(found) == text
    assert found.__notes__ == ["in a trainer"]
