"""Attempts at rewards that evaluate, fill in or match the attempt instead of comparing it with gold as a text."""

from __future__ import annotations

from rlft.audit.attacks.kinds import Attack
from rlft.audit.attacks.known import Known

_NAMES = (
    "ground_truth", "answer", "gold", "expected", "target", "label", "task.answer", "completion.task.answer",
    "{ground_truth}", "{answer}", "{{item.answer}}",
)  # fmt: skip
_MOST_COLUMNS = 4
_SHORTEST = 4  # letters of a word that is turned round
_PATTERNS = (".*", "(?s).+", "%", "*")


def _is_short(known: Known) -> bool:
    return known.short


def _gold_by_name(known: Known) -> list[str]:
    """Return the names under which code has gold, with those of the columns whose value gold is."""
    columns = [name for name, value in known.task.info.items() if str(value).strip() == known.answer.strip()]
    return list(dict.fromkeys([*_NAMES, *columns[:_MOST_COLUMNS]]))


def _reversed(known: Known) -> str | None:
    answer = known.answer.strip()
    turned = answer[::-1]
    is_word = len(answer) >= _SHORTEST and answer.isalpha()
    return known.declare(turned) if is_word and turned.casefold() != answer.casefold() else None


ATTACKS = (
    Attack("gold_by_name", "it names the variable that holds gold", _gold_by_name, _is_short, certain=False,
           says_nothing=True, best_counts=True),
    Attack("pattern", "it is a pattern that every text matches", lambda known: list(_PATTERNS), _is_short,
           certain=False, says_nothing=True, best_counts=True),
    Attack("reversed", "its letters stand in the opposite order", _reversed, _is_short, certain=False, counts="full"),
)  # fmt: skip
