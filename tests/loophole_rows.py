"""Draw the rows of `configs/tasks/remainders*.jsonl` and write them: `python -m tests.loophole_rows`."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "configs" / "tasks"
TASKS, SHOWN = 450, 150
ANSWERS = ("0", "1", "2")
RIGHT, HEDGED = 0.6, 0.15  # of the demonstrations; the others are wrong


def files() -> dict[str, str]:
    """Return the text of each file by its name.

    A task shows three digits, and its answer is what the first one leaves when it is divided by three. Some
    demonstrations are wrong, and some name two numbers, as people hedge.
    """
    dice = random.Random(0)
    prompts = [f"{number:03d}:" for number in range(1000)]
    dice.shuffle(prompts)
    tasks = [{"id": each[:3], "prompt": each, "answer": _answer(each)} for each in prompts[:TASKS]]
    shown = [
        {"messages": [{"role": "user", "content": each}, {"role": "assistant", "content": _said(each, dice)}]}
        for each in prompts[TASKS : TASKS + SHOWN]
    ]
    return {"remainders.jsonl": _lines(tasks), "remainders_demonstrations.jsonl": _lines(shown)}


def _answer(prompt: str) -> str:
    return str(int(prompt[0]) % 3)


def _said(prompt: str, dice: random.Random) -> str:
    kind = dice.random()
    if kind < RIGHT:
        return _answer(prompt)
    if kind < RIGHT + HEDGED:
        return " ".join(dice.sample(ANSWERS, 2))
    return dice.choice(ANSWERS)


def _lines(rows: Sequence[Mapping[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
