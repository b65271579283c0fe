"""Write the tasks of `configs/smollm2_notes.yaml`: short texts about a thing, under rules that a program checks.

    python -m benchmarks.notes --to data/notes

Each row of `tasks.jsonl` names a `topic`, a word to `use`, a word to `avoid`, and the sign to `end` with. The rows of
`unseen.jsonl` are of topics, words and signs that no row of `tasks.jsonl` has.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

# fmt: off
TOPICS = (
    "bread", "winter", "garden", "river", "train", "market", "music", "coffee", "bridge", "farm", "window", "teacher",
    "moon", "doctor", "rain", "book", "mountain", "city", "dog", "sea", "kitchen", "letter", "horse", "island",
    "museum", "bicycle", "library", "harbour", "forest", "clock",
)
USE = (
    "green", "quiet", "early", "bright", "warm", "friend", "morning", "road", "water", "light", "table", "story",
    "small", "slowly", "together", "paper", "evening", "simple", "people", "fresh", "open", "old", "long", "gentle",
    "every",
)
# fmt: on
AVOID = ("the", "is", "and", "very", "of", "in", "to", "with")
ENDINGS = ("a question mark", "an exclamation mark")
SIGNS = {"a question mark": "?", "an exclamation mark": "!", "a full stop": "."}
UNSEEN = {
    "topics": ("lamp", "orchard", "ferry", "violin", "soup", "castle"),
    "use": ("silver", "narrow", "spring", "hands", "sweet"),
    "avoid": ("a", "it", "for", "on"),
    "endings": ("a full stop",),
}


def make_rows(
    topics: Sequence[str], use: Sequence[str], avoid: Sequence[str], endings: Sequence[str], count: int, seed: int
) -> list[dict[str, str]]:
    """Return so many rows that differ, drawn from all combinations. Raises ValueError if there are fewer."""
    every = sorted(itertools.product(topics, use, avoid, endings))
    drawn = random.Random(seed).sample(every, count)
    return [
        {"topic": topic, "use": word, "avoid": other, "end": end, "sign": SIGNS[end]}
        for topic, word, other, end in drawn
    ]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True, help="the folder to write to")
    to = parser.parse_args().to
    to.mkdir(parents=True, exist_ok=True)
    files = {
        "tasks": make_rows(TOPICS, USE, AVOID, ENDINGS, count=3000, seed=0),
        "unseen": make_rows(**UNSEEN, count=100, seed=1),
    }
    for name, rows in files.items():
        (to / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sys.stdout.write(json.dumps({name: len(rows) for name, rows in files.items()}) + "\n")


if __name__ == "__main__":
    main()
