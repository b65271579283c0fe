"""Finds the evaluation tasks whose prompt is that of a train task or a demonstration, or shares 13 words of prose.

The overlap follows Brown et al. 2020 (arXiv:2005.14165, appendix C); where it differs, and why, stands in
docs/guide/contamination.md. The time grows with the length of all texts together.

Compared are whole prompts, and the words of prose, of tasks and of conversations (`Text`). Beside what is found stand
the scores with and without it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from statistics import fmean
from typing import Literal

import regex

from rlft.evaluation.comparison import range_of
from rlft.evaluation.gates import digest, question_key, question_of
from rlft.evaluation.statistics import mean_interval
from rlft.texts.blocks import level
from rlft.texts.characters import apart, as_seen, as_written
from rlft.types import EvaluationReport, Interval, Message, Report, Task

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
    whatever template it stands in (`evaluation.gates`): either makes a copy if the `answer` is the same, too, which
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


RUN = 13
"""Words in a row that make an overlap, of a prompt that has at least as many."""
MOST_SIGNS = 0.5
"""Signs for each word of a prompt that is prose."""
COMMON_RUN = 7
"""Words of a run that may be common: more than half of the 13 that make an overlap."""
MOST_GROUPS, MOST_SHARE = 10, 0.01
"""A run is common in more than so many groups of texts, and in more than this share of them."""
_SHOWN = 400  # characters of what two texts share
Kind = Literal["exact", "overlapping"]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Says what was found of an evaluation task.

    `exact`: the other has the same prompt, or asks the same question in another template. `overlapping`: they share
    13 words of prose in a row. `words` are the first of these, or the beginning of the prompt. `other` is the id of the
    train task, or the place of the demonstration.
    """

    kind: Kind
    source: Source
    other: str
    words: str


@dataclass(frozen=True, slots=True)
class ContaminationReport(Report):
    """Says which evaluation tasks are not new to a model that was trained.

    `splits` are the ids of the tasks that were looked at, by split, and `found` is what was found of some of them, by
    id: tasks that are not in it are clean. `compared` counts the texts of each source they were compared with, and
    `common` the runs of words that were left out because many texts have them.
    """

    splits: dict[str, tuple[str, ...]]
    found: dict[str, Overlap]
    compared: dict[str, int]
    common: int = 0

    def counts(self, split: str) -> dict[str, int]:
        """Return how many tasks of a split are `clean`, `exact` and `overlapping`, and how many there are: `tasks`."""
        ids = self.splits.get(split, ())
        kinds = Counter(self.found[task].kind for task in ids if task in self.found)
        exact, overlapping = kinds["exact"], kinds["overlapping"]
        return {
            "tasks": len(ids),
            "clean": len(ids) - exact - overlapping,
            "exact": exact,
            "overlapping": overlapping,
        }


def find_contamination(
    evaluated: Mapping[str, Sequence[Task]], train: Sequence[Task], demonstrations: Sequence[Text] = ()
) -> ContaminationReport:
    """Compare evaluation tasks, by split, with train tasks and demonstrations (`text_of_demonstration`).

    Only prompts are compared, with prompts and all that demonstrations hold. The same prompt counts before overlaps,
    and of several texts the first.
    """
    asked = {task.id: text_of_task(task) for tasks in evaluated.values() for task in tasks}
    sources = ([text_of_task(task) for task in train], list(demonstrations))
    others = [text for texts in sources for text in texts]
    common = _common_runs(list(asked.values()), sources)
    looked_for = {id: dict(_runs_of_13(text, common)) if _is_prose(text) else {} for id, text in asked.items()}
    wanted = {run for runs in looked_for.values() for run in runs}
    seen = dict[int, Text]()
    for text in others if wanted else ():
        for run, _ in _runs_of_13(text, common):
            if run in wanted:
                seen.setdefault(run, text)
    known = dict[tuple[str, str], Text]()
    for text in reversed(others):  # the first of equal ones stays
        known |= dict.fromkeys([(text.exact, ""), (text.prompt, text.answer), (text.question, text.answer)], text)
    found = dict[str, Overlap]()
    for id, text in asked.items():
        keys = [(said, answer) for said in (text.exact, text.prompt, text.question) for answer in (text.answer, "")]
        if same := next((known[key] for key in keys if key[0] and key in known), None):
            found[id] = Overlap("exact", same.source, same.id, text.prompt[:_SHOWN])
        elif run := next((run for run in looked_for[id] if run in seen), None):
            shared = " ".join(looked_for[id][run])
            found[id] = Overlap("overlapping", seen[run].source, seen[run].id, shared[:_SHOWN])
    return ContaminationReport(
        splits={split: tuple(task.id for task in tasks) for split, tasks in evaluated.items()},
        found=found,
        compared={"train": len(train), "demonstrations": len(demonstrations)},
        common=len(common),
    )


def most_groups(groups: int) -> float:
    """Return in how many of so many groups a run may be without being common.

    Ten, or 1 % where that is more. Where there are few groups, half of them, but at least two.
    """
    return min(max(MOST_GROUPS, MOST_SHARE * groups), max(2, groups / 2))


def _is_prose(text: Text) -> bool:
    return text.signs <= MOST_SIGNS * sum(weight(word) for part in text.parts for word in part)


def _runs_of_13(text: Text, common: Collection[int]) -> Iterator[tuple[int, list[str]]]:
    """Yield the hash and the words of each run that begins and ends with words that count, 13 in all."""
    for piece in _pieces(text, common):
        weights, end, total = [weight(word) for word in piece], 0, 0.0
        for start, own in enumerate(weights):
            while total < RUN and end < len(piece):
                total += weights[end]
                end += 1
            if own and total >= RUN:
                yield hash(tuple(piece[start:end])), piece[start:end]
            total -= own


def _runs(part: Sequence[str]) -> list[int]:
    """Return the hashes of all runs of `COMMON_RUN` words, by the place at which they begin."""
    return [hash(tuple(part[place : place + COMMON_RUN])) for place in range(len(part) - COMMON_RUN + 1)]


def _common_runs(evaluated: Sequence[Text], others: Sequence[Sequence[Text]]) -> set[int]:
    """Return the hashes of the runs of `evaluated` that many of its texts have, or many of one of `others`."""
    known, common = {run for text in evaluated for part in text.parts for run in _runs(part)}, set[int]()
    for texts in (evaluated, *others):
        of_group = defaultdict[str, set[int]](set)
        for text in texts:
            of_group[text.group].update(run for part in text.parts for run in _runs(part) if run in known)
        most = most_groups(len(of_group))
        counts = Counter(run for found in of_group.values() for run in found)
        common |= {run for run, count in counts.items() if count > most}
    return common


def _pieces(text: Text, common: Collection[int]) -> Iterator[list[str]]:
    """Yield what is left of a text without the common runs: pieces of its messages, in their order."""
    for part in text.parts:
        starts = [place for place, run in enumerate(_runs(part)) if run in common] if common else []
        gone = {start + place for start in starts for place in range(COMMON_RUN)}
        for is_gone, piece in groupby(enumerate(part), key=lambda each: each[0] in gone):
            if not is_gone:
                yield [word for _, word in piece]


def clean_mean(report: EvaluationReport, contamination: ContaminationReport, metric: str) -> Interval | None:
    """Return the mean score of the clean tasks in a metric of the report; `None` where none of them has a score."""
    clean = {task: score for task, score in report.per_task[metric].items() if task not in contamination.found}
    return mean_interval(clean, report.groups, range_of(metric, report.ranges)) if clean else None


def contamination_sentence(
    contamination: ContaminationReport, report: EvaluationReport, clean: Interval | None, metric: str
) -> str:
    """Return in a sentence or two how many tasks of a report are not new to the model, and the score without them."""
    counts, scores = contamination.counts(report.split), report.per_task[metric].values()
    found = counts["exact"] + counts["overlapping"]
    if not found:
        tasks = f"{counts['tasks']} tasks of `{report.split}`"
        return f"None of the {tasks} was found among the train tasks or demonstrations."
    said = (
        f"Of the {counts['tasks']} tasks of `{report.split}`, {found} {'are' if found > 1 else 'is'} not new to the "
        f"trained model ({counts['exact']} by the whole prompt, {counts['overlapping']} by a passage of it)."
    )
    if clean is None:
        return f"{said} No other task has a score."
    return (
        f"{said} On the {clean.count} clean tasks `{metric}` is {level(clean.mean, metric)} "
        f"({level(clean.low, metric)} to {level(clean.high, metric)}), on all {len(scores)} it is "
        f"{level(fmean(scores), metric)}."
    )
