"""Tasks and conversations as they are compared: whole prompts, and the words of prose.

The definition, and why it is so, stand in docs/guide/contamination.md.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import regex

from rlft.gates.identity import digest, question_key, question_of
from rlft.lookalikes import as_seen
from rlft.nfkc import as_written
from rlft.scripts import apart
from rlft.types import Message, Task

Source = Literal["train", "demonstrations"]
_SIGNS = str.maketrans("\u00d7\u2217\u22c5\u00f7\u2044\u2212\u2010\u2012\u2013\u2019\u2018\u02bc\u201c\u201d\u201e",
                       "***//----'''\"\"\"")  # fmt: skip
_ACCENTS = re.compile(r"(?<=[a-z])[\u0300-\u036f]+")  # of Latin letters: elsewhere such marks are letters
_BREAK, _BOLD = re.compile(r"<br ?/?>"), re.compile(r"(?<!\w)\*\*(?=\S)([^*]+)(?<=\S)\*\*(?!\w)")
_TAG = re.compile(r"</?[a-z][^<>]{0,200}>|&nbsp;")
_OPTION = re.compile(r"(?:^|(?<=\s))\(?([a-j])[.):] (.*?)(?=\s\(?[a-j][.):] |\n|$)")
_WORD = regex.compile(r"\p{N}+(?:[.,]\p{N}+)+|[\p{L}\p{M}\p{N}]+(?:'\p{L}+)*")
_LETTERS = regex.compile(r"(?![acgtun]+\Z)[\p{L}\p{M}']{2,}")
_SIGN = regex.compile(r"[\p{P}\p{S}]")


@dataclass(frozen=True, slots=True)
class Text:
    """Holds what is compared of a task or a demonstration.

    `parts` are the words of each message but those of role `system`, which the harness writes, and `signs` counts what
    stands between them. `prompt` is the whole prompt as `normal` gives it, and `question` a hash of what is asked,
    whatever template it stands in (`rlft.gates.identity`): either makes a copy if the `answer` is the same, too, which
    is empty where it does not tell: of demonstrations, and where options may have moved. `exact`, a hash of the prompt
    to the letter, makes one alone. Texts of one `group` count once where it is asked how many have something in common.
    """

    id: str
    source: Source
    group: str
    parts: tuple[list[str], ...]
    signs: int
    prompt: str
    question: str
    exact: str = ""
    answer: str = ""


def text_of_task(task: Task, source: Source = "train") -> Text:
    """Return what is compared of a task: its prompt, and its answer where two prompts differ a little."""
    answer = "" if len(_OPTION.findall(_BOLD.sub(r"\1", task.text.casefold()))) > 2 else str(task.answer)
    text = _text(task.id, source, task.group, _told(task.prompt), (), question_of(task))
    return replace(text, exact=digest(task.prompt), answer=answer)


def text_of_demonstration(id: str, prompt: Sequence[Message], turns: Sequence[Message]) -> Text:
    """Return what is compared of a conversation that is imitated: its prompt, and all that follows.

    Demonstrations with the same prompt are one group. What is asked is taken to be the last message of the user.
    """
    asked = next((message["content"] for message in reversed(prompt) if message["role"] == "user"), "")
    return _text(id, "demonstrations", None, _told(prompt), _told(turns), question_key([asked]))


def normal(text: str) -> str:
    """Return a text as whole prompts are compared: two are the same prompt if their normal texts are equal.

    The text is brought into NFKC and case-folded, without what nobody sees, with Latin letters for those that look like
    them and without their accents. White space is one space, and so is `<br>`. Signs that are written in several ways
    are written in one, bold text is plain, and the options A, B, C, ... of a question are sorted. All other signs stay.
    """
    text = as_seen(as_written(text).casefold()).translate(_SIGNS)
    text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", text)))
    text = _BOLD.sub(r"\1", _BREAK.sub(" ", text))
    text = "\n".join(" ".join(line.split()) for line in text.splitlines())
    options = _OPTION.findall(text)
    if len(options) > 2 and "".join(letter for letter, _ in options) == "abcdefghij"[: len(options)]:
        text = " ".join([_OPTION.sub("", text), *sorted(said for _, said in options)])
    return " ".join(text.split())


def words(text: str) -> list[str]:
    """Return the words and numbers of a normal text, each letter of a script without spaces as one."""
    return _WORD.findall(apart(text, korean=False))


@lru_cache(maxsize=1 << 16)
def weight(word: str) -> float:
    """Return how much a word counts: 1, and nothing if it has digits, is a single letter, or a piece of DNA or RNA.

    A letter of Chinese or Japanese is half a word, one of Thai, Lao, Khmer or Burmese a quarter.
    """
    if apart(word, korean=False) != word:
        return 0.5 if unicodedata.east_asian_width(word[0]) in "WF" else 0.25
    return float(_LETTERS.fullmatch(word) is not None)


def _told(messages: Sequence[Message]) -> list[str]:
    """Return the normal texts of the messages, of those of role `system` only where there are no others."""
    told = [message for message in messages if message["role"] != "system"]
    return [normal(message["content"]) for message in told or messages]


def _text(id: str, source: Source, group: str | None, asked: list[str], more: Sequence[str], question: str) -> Text:
    prompt, every = " ".join(filter(None, asked)), [_TAG.sub(" ", each) for each in (*asked, *more)]
    signs = sum(len(_SIGN.findall(each)) for each in every)
    return Text(id, source, prompt if group is None else group, tuple(map(words, every)), signs, prompt, question)
