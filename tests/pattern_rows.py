"""Draw the rows of `configs/tasks/patterns*.jsonl` and write them: `python -m tests.pattern_rows`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlft.environments.patterns import LETTERS

FOLDER = Path(__file__).resolve().parents[1] / "configs" / "tasks"
LENGTH = 5


@dataclass(frozen=True)
class Kind:
    """How many rules of each kind a prompt has, one of the numbers being drawn for each prompt."""

    in_place: Sequence[int]
    wanted: Sequence[int]
    unwanted: Sequence[int]


TASKS = Kind(in_place=(1, 2), wanted=(1,), unwanted=(1, 2))
SHOWN = Kind(in_place=(1, 2), wanted=(0, 1), unwanted=(0,))
HARDER = Kind(in_place=(2,), wanted=(2,), unwanted=(1, 2))


def draw(kind: Kind, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield `count` different prompts, each with a word that meets its rules."""
    dice, seen = random.Random(seed), set[str]()
    while len(seen) < count:
        word = "".join(dice.choices(LETTERS, k=LENGTH))
        places = set(dice.sample(range(LENGTH), dice.choice(kind.in_place)))
        pattern = "".join(letter if place in places else "." for place, letter in enumerate(word))
        has, lacks = sorted(set(word) - set(pattern)), sorted(set(LETTERS) - set(word))
        wanted, unwanted = dice.choice(kind.wanted), dice.choice(kind.unwanted)
        if len(has) < wanted or len(lacks) < unwanted:
            continue
        rules = [f"+{letter}" for letter in dice.sample(has, wanted)]
        rules += [f"-{letter}" for letter in dice.sample(lacks, unwanted)]
        prompt = " ".join([pattern, *rules]) + ":"
        if prompt not in seen:
            seen.add(prompt)
            yield prompt, word


def files() -> dict[str, str]:
    """Return the text of each file by its name."""
    shown = [
        {"messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": word}]}
        for prompt, word in draw(SHOWN, 300, 3)
    ]
    return {
        "patterns.jsonl": _lines([{"prompt": prompt} for prompt, _ in draw(TASKS, 2900, 1)]),
        "patterns_harder.jsonl": _lines([{"prompt": prompt} for prompt, _ in draw(HARDER, 400, 2)]),
        "patterns_demonstrations.jsonl": _lines(shown),
    }


def _lines(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
