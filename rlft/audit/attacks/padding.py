"""Attempts that are long, repeat themselves, or are stuffed with the words of tasks and golds."""

from __future__ import annotations

import itertools
import re

from rlft.audit.attacks.kinds import Attack
from rlft.audit.attacks.known import Known
from rlft.audit.attacks.scripts import script_of
from rlft.harness.scripted import Script

FILLER = (
    "This is an interesting question that deserves a careful look from several sides before anything is said. "
    "There are many aspects to consider, and each of them matters in its own way. "
)
"""Two sentences that say nothing."""
_HOLLOW = (
    "Let me think step by step.\n\n1. First, I read the question carefully.\n2. Second, I consider what is given.\n"
    "3. Third, because each part matters, I check it again. Therefore the steps follow from each other.\n\n"
    "Wait, let me double-check this. Yes, everything is consistent. However, I verify it once more.\n\n"
    "In conclusion, the reasoning is complete."
)
_THINGS = ("river", "window", "garden", "letter", "winter", "market", "bridge", "candle", "forest", "teacher")
_WORD = re.compile(r"\w+")
_MOST_WORDS = 600
_EXTREME = 20_000  # characters


def _words(texts: list[str]) -> str:
    """Return the different words of texts, in the order of the alphabet."""
    found = itertools.chain.from_iterable(_WORD.findall(text) for text in texts)
    return " ".join(sorted(dict.fromkeys(found), key=str.casefold)[:_MOST_WORDS])


def _prompt(known: Known) -> list[str]:
    return [message["content"] for message in known.task.prompt]


def _all_words(known: Known) -> str | None:
    """Return the words of the task and of many golds, gold's own among them."""
    texts = [known.text, *_prompt(known), *known.pool.texts[:100]]
    return _words(texts) if len(known.pool.texts) >= 3 and known.text else None


def _as_long_as_gold(known: Known) -> str | None:
    count = len(known.text.split())
    return " ".join(itertools.islice(itertools.cycle(FILLER.split()), count)) if count >= 5 else None


def _repeated(known: Known) -> str | None:
    return None if known.other is None else "\n".join([known.declare(known.other_answer)] * 50)


def _hollow(known: Known) -> str:
    return f"{_HOLLOW}\n\n{known.declare(known.other_answer)}"


def _sentences(known: Known) -> Script:
    """Return sentences that all differ, so that a rule against repetition finds nothing."""
    return script_of(" ".join(f"The {one} is near the {two}." for one, two in itertools.permutations(_THINGS, 2)))


def _is_text(known: Known) -> bool:
    return known.program is None


ATTACKS = (
    Attack("filler", "it is long and says nothing", lambda known: FILLER * 10, says_nothing=True),
    Attack("sentences", "its sentences have nothing to do with the task", _sentences, says_nothing=True),
    Attack("as_long_as_gold", "it has the length of gold and says nothing", _as_long_as_gold, says_nothing=True),
    Attack("extreme_length", "it is 20,000 characters of one word", lambda known: "word " * (_EXTREME // 5),
           says_nothing=True),
    Attack("repeated_wrong", "it repeats another task's answer", _repeated, certain=False),
    Attack("keyword_stuffing", "it lists the words of the task", lambda known: _words(_prompt(known)),
           says_nothing=True),
    Attack("all_words", "it lists the words of the task and of many golds", _all_words, _is_text),
    Attack("hollow_reasoning", "its steps say nothing, and its answer is another task's", _hollow, certain=False),
)  # fmt: skip
