"""Fetch the rows of `configs/snips_slots.yaml`: short requests with intent and slots.

    python -m benchmarks.snips --to data/snips_slots/tasks.jsonl

They are of the Snips benchmark (Coucke et al. 2018, arXiv:1805.10190; CC0 1.0): of each intent its 100 rows for
validation and, chosen by hash, 400 for training. Requests that share half of their pairs of neighbouring words get one
`group`. A fifth of the groups, chosen by hash, is left out for checks of your own. Where GitHub
cannot be reached, `--source FOLDER` reads a checkout of github.com/sonos/nlu-benchmark.
"""

from __future__ import annotations

import argparse
import codecs
import hashlib
import itertools
import json
import re
import sys
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rlft.environments.snips_slots import INTENTS

COMMIT = "b86ac7f1577868c42158d0dec77db50956046696"
ADDRESS = f"https://raw.githubusercontent.com/sonos/nlu-benchmark/{COMMIT}"
FOLDER = "2017-06-custom-intent-engines"
SHA256 = "ed5e5c9e60a28bc6705d863a299c66be2a9c147923fb2ec502f820ee08f6261e"  # of what comes out
TRAINING, ALIKE, LEFT_OUT = 400, 0.5, 20  # rows of an intent; share of pairs of words; per cent


def download(name: str) -> bytes:
    """Return a file of the benchmark. Raises OSError."""
    with urllib.request.urlopen(f"{ADDRESS}/{name}", timeout=60) as answer:
        return answer.read()


def _as_cp1252(error: UnicodeError) -> tuple[str, int]:
    """Decode a byte that is no UTF-8, of which train_PlayMusic_full.json has six."""
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("cp1252"), error.end


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _rows(read: Callable[[str], bytes]) -> Iterator[dict[str, Any]]:
    codecs.register_error("cp1252", _as_cp1252)
    for intent in sorted(INTENTS):
        for split, name in (("train", f"train_{intent}_full.json"), ("validate", f"validate_{intent}.json")):
            content = json.loads(read(f"{FOLDER}/{intent}/{name}").decode("utf-8", errors="cp1252"))[intent]
            texts = ["".join(part["text"] for part in each["data"]) for each in content]
            chosen = range(len(texts))
            if split == "train":
                by_hash = sorted(chosen, key=lambda line: _hash(f"rl-data-v1|{intent}|{line}|{texts[line]}"))
                chosen = sorted(by_hash[:TRAINING])
            for line in chosen:
                slots = [
                    {"slot": part["entity"], "value": part["text"].strip()}
                    for part in content[line]["data"]
                    if "entity" in part
                ]
                row = f"snips-{intent}-{split}-{line + 1:04d}"
                yield {"id": row, "text": texts[line], "intent": intent, "slots": slots}


def _groups(texts: list[str]) -> list[str]:
    """Return what names the group of each text: the smallest hash of a text in it."""
    words = [re.findall(r"\w+", text.lower()) for text in texts]
    pairs = [set(itertools.pairwise(each)) or {tuple(each)} for each in words]
    group, places = list(range(len(texts))), defaultdict(list)
    for number, own in enumerate(pairs):
        common = Counter(other for pair in own for other in places[pair])
        for other, count in common.items():
            if count / (len(own) + len(pairs[other]) - count) >= ALIKE:
                old, new = group[other], group[number]
                group = [new if each == old else each for each in group]
        for pair in own:
            places[pair].append(number)
    smallest: dict[int, str] = {}
    for number, text in zip(group, texts, strict=True):
        smallest[number] = min(_hash(text), smallest.get(number, "g"))
    return [smallest[number] for number in group]


def make_tasks(read: Callable[[str], bytes]) -> list[dict[str, Any]]:
    """Return rows with `id`, `text`, `intent`, `slots` and `group`; `read` returns a file by its name."""
    rows = list(_rows(read))
    groups = _groups([row["text"] for row in rows])
    kept = [int(_hash(f"rl-data-v1|{group}")[:8], 16) % 100 >= LEFT_OUT for group in groups]
    return [row | {"group": group[:12]} for row, group, keep in zip(rows, groups, kept, strict=True) if keep]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True, help="the file to write")
    parser.add_argument("--source", type=Path, help="a checkout of the benchmark, in place of GitHub")
    options = parser.parse_args()
    read = download if options.source is None else lambda name: (options.source / name).read_bytes()
    rows = make_tasks(read)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if _hash(text) != SHA256:
        raise SystemExit(f"the rows have sha256 {_hash(text)}, expected {SHA256}: the benchmark's files have changed")
    options.to.parent.mkdir(parents=True, exist_ok=True)
    options.to.write_text(text, encoding="utf-8")
    sys.stdout.write(json.dumps({"file": str(options.to), "rows": len(rows)}) + "\n")


if __name__ == "__main__":
    main()
