"""An environment for short stories that must end, not repeat themselves and contain a word.

A very small model can learn it. A story with fewer than `min_sentences` real sentences earns nothing. A sentence is
real if it ends with `.`, `!` or `?`, has at least three words with letters, two of them different, and is not copied
from the prompt. It repeats another one if they are equal without case and punctuation, or equally long (four words or
more) and different in a single word.

Known loopholes, left open because closing them needs a judge of language: three short sentences about anything are
enough (raise `min_sentences`); sentences need not make sense or follow from each other; a policy may put many likely
words into every story, or the word where it does not belong; a near-copy in which two words differ is a new sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, validate_call

from rlft.environments.contract.base import BaseEnv
from rlft.types import Task, Trajectory

# Matches at every position, so that a search never fails and starts again one character on: the time is linear.
_LINE_OR_SENTENCE = re.compile(r"([^.!?\n]*)([.!?]+[\"'\u201d\u2019)]*|\n|\Z)")
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_GOLD_SENTENCES = (
    'Tom found a card with "{word}" on it.',
    "He showed it to his mom and she smiled.",
    "Then they went home and had a nice meal.",
    "A big dog was waiting at the door.",
    "It wagged its tail because it was happy.",
    "Soon his sister Anna came in from the garden.",
    "She had picked red flowers for everyone.",
    "Dad put them into water near the window.",
    "After that all of them played until it got dark.",
    "At night Tom looked up at the moon.",
    "The stars were bright above the quiet street.",
    "Finally he closed his eyes and slept well.",
)


class Stories(BaseEnv):
    """Asks for the continuation of a story and scores its form.

    Parts: `ends` (not cut off by a limit), `no_repeats` (no sentence repeats another) and `word` (the task's word
    occurs). A task's prompt begins a story; its answer, or else `info["word"]`, is the word. For a task without a word,
    the part `word` is `None`.
    """

    @validate_call
    def __init__(self, min_sentences: Annotated[int, Field(ge=3, le=len(_GOLD_SENTENCES))] = 3) -> None:
        """Set the number of real sentences that a story needs to earn anything; two are no story."""
        self.min_sentences = min_sentences

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Return 1 in each part that the story fulfils; a text with too few real sentences gets 0 in all of them."""
        word = _word(completion.task, ground_truth)
        sentences = self._real_sentences(completion)
        is_story = len(sentences) >= self.min_sentences
        return {
            "ends": float(is_story and not completion.truncated),
            "no_repeats": float(is_story and not has_repeats(sentences)),
            "word": None if word is None else float(is_story and occurs(word, completion.text)),
        }

    def reward_minima(self) -> dict[str, float]:
        """Return 0: no part of a score is below it."""
        return {"*": 0.0}

    def final_answer(self, completion: Trajectory) -> str | None:
        """Return the task's word if the text is a story that contains it, else `None`.

        Majority votes need an answer, and a story has no other one.
        """
        word = _word(completion.task, completion.task.answer)
        is_story = len(self._real_sentences(completion)) >= self.min_sentences
        return word if word and is_story and occurs(word, completion.text) else None

    def gold_completion(self, task: Task) -> str | None:
        """Return a prepared story of `min_sentences` sentences, the first of which contains the word."""
        word = _word(task, task.answer) or "hello"
        return " ".join(_GOLD_SENTENCES[: self.min_sentences]).format(word=word)

    def _real_sentences(self, completion: Trajectory) -> list[tuple[str, ...]]:
        told = {words for message in completion.task.prompt for words in split_sentences(message["content"])}
        return [words for words in split_sentences(completion.text) if _is_real(words) and words not in told]


def split_sentences(text: str) -> list[tuple[str, ...]]:
    """Return the words of each sentence, in lower case. Text of a line after its last `.`, `!` or `?` is left out."""
    pieces = _LINE_OR_SENTENCE.findall(text)
    return [tuple(_WORD.findall(words.lower())) for words, end in pieces if end[:1] in (".", "!", "?")]


def has_repeats(sentences: Sequence[tuple[str, ...]]) -> bool:
    """Return whether a sentence is equal to an earlier one, or, from four words on, differs from it in one word.

    The time is proportional to the number of words. Two sentences differ in at most one place exactly when, for some
    place, they are equal before it and behind it; the numbers of these beginnings and endings are looked up in a set.
    """
    numbers: dict[tuple[int, str], int] = {}
    seen: set[tuple[int, int]] = set()
    for sentence in sentences:
        begins, ends = _beginnings(sentence, numbers), _beginnings(sentence[::-1], numbers)[::-1]
        around_a_word = set(zip(begins[:-1], ends[1:], strict=True))
        # A short sentence repeats only as a whole; -1 is the number of no ending.
        keys = around_a_word if len(sentence) >= 4 else {(begins[-1], -1)}
        if not seen.isdisjoint(keys):
            return True
        seen |= keys
    return False


def occurs(word: str, text: str) -> bool:
    """Return whether `word` stands in the text as a whole word, in any case."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None


def _is_real(words: tuple[str, ...]) -> bool:
    return len(words) >= 3 and len(set(words)) >= 2


def _beginnings(words: Sequence[str], numbers: dict[tuple[int, str], int]) -> list[int]:
    """Return a number for each beginning of `words`, from the empty one (0) on; equal beginnings have equal numbers.

    `numbers` maps (number of the beginning without its last word, last word) to the number, and is filled.
    """
    found = [0]
    for word in words:
        found.append(numbers.setdefault((found[-1], word), len(numbers) + 1))
    return found


def _word(task: Task, ground_truth: Any) -> str | None:
    """Return the task's word, or `None` if it has none. Raises ValueError for a word that is no text."""
    word = task.info.get("word") if ground_truth is None else ground_truth
    if word is not None and not (isinstance(word, str) and word.strip()):
        raise ValueError(f"the word of task {task.id} is {word!r}, not text")
    return None if word is None else word.strip()
