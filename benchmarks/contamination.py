"""What counts as a copy: pairs of prompts of which one is a copy of the other, and pairs of distinct tasks.

`python -m benchmarks.contamination` prints the table of docs/guide/contamination.md.
"""

from __future__ import annotations

import sys

from rlft.tasks.contamination import find_contamination
from tests.factories import make_task

DUCKS = (
    "Janet's ducks lay 16 eggs per day. She eats three for breakfast every morning and bakes muffins with 4 * 1 eggs "
    "for her friends. She sells what is left for $2 - $1 per egg at the caf\u00e9 of Mr. M\u00fcller. "
    "How much does she make?"
)
PLANET = "Which planet has rings?\nA) Mars\nB) Saturn\nC) Venus\nD) Earth"
CELL = "Which part of a plant cell takes up light and turns water and air into sugar and oxygen?\n"
DNA = "gatcctccat atacaacggt atctccacct caggtttaga tctcaacaac ggaaccattg ccgacatgag acagttaggt atcgtcgaga gttacaagct"
SHOP = (
    "def total(shop, prices):\n    found = (shop.first + shop.second) * prices.value\n"
    "    for item in shop.items:\n        found += item.value * (item.count + item.more)\n    return found"
)
OWN = "with answers of their own"
COPIES: dict[str, tuple[str, str]] = {  # {what was changed: (a train task, the evaluation task)}
    "nothing": (DUCKS, DUCKS),
    "nothing, in a short prompt": ("What is 5!", "What is 5!"),
    "case": (DUCKS, DUCKS.upper()),
    "white space": (DUCKS, DUCKS.replace(". ", ".\n\n  ")),
    "a template around it": (DUCKS, f"Solve the following problem.\n\nProblem: {DUCKS}\n\nAnswer:"),
    "`<br>` after every eighth word": (
        DUCKS, " ".join(word + "<br>" * (n % 8 == 7) for n, word in enumerate(DUCKS.split()))),
    "numbers in bold": (DUCKS, DUCKS.replace("16", "**16**").replace("4 * 1", "**4** * **1**")),
    "accents left out": (DUCKS, DUCKS.replace("\u00e9", "e").replace("\u00fc", "u")),
    "\u00d7 for *": (DUCKS, DUCKS.replace("*", "\u00d7")),
    "the minus of Unicode": (DUCKS, DUCKS.replace("-", "\u2212")),
    "curly quotes": (DUCKS, DUCKS.replace("'", "\u2019")),
    "a letter of Cyrillic, a space of no width": ("The capital of Peru?", "The c\u0430pital of Pe\u200bru?"),
    "options in another order": (PLANET, "Which planet has rings?\nA) Earth\nB) Mars\nC) Venus\nD) Saturn"),
    "options in another order, long": (
        f"{CELL}(A) wall (B) chloroplast (C) nucleus", f"{CELL}(A) nucleus (B) wall (C) chloroplast"),
    "ten options in another order": (
        "Pick:\n" + "\n".join(f"{letter}) o{n}" for n, letter in enumerate("ABCDEFGHIJ")),
        "Pick:\n" + "\n".join(f"{letter}) o{9 - n}" for n, letter in enumerate("ABCDEFGHIJ"))),
    "options 1, 2, 3 in another order": (
        "Which planet has rings?\n1. Mars\n2. Saturn\n3. Venus",
        "Which planet has rings?\n1. Saturn\n2. Mars\n3. Venus"),
    "`<b>` around every fourth word": (
        DUCKS, " ".join(f"<b>{word}</b>" if n % 4 == 3 else word for n, word in enumerate(DUCKS.split()))),
    "`&nbsp;` for spaces": (DUCKS, DUCKS.replace(" ", "&nbsp;")),
    "`<b>`, in a short prompt": ("What is 3 + 4?", "What is <b>3 + 4</b>?"),
    "`*` around a word, in a short prompt": ("What is 3 + 4?", "*What* is 3 + 4?"),
    "the last sign left out, in a short prompt": ("What is 3 + 4?", "What is 3 + 4"),
    "other numbers in the same story": (DUCKS, DUCKS.replace("16", "18").replace("three", "two")),
    "another last sentence": (DUCKS, DUCKS.replace("How much does she make?", "How many eggs are sold?")),
}  # fmt: skip
DISTINCT: dict[str, tuple[str, str]] = {  # {what differs: two tasks}
    f"case, in FEN, {OWN}": ("Who is ahead? 4k3/4Q3/4K3 w", "Who is ahead? 4k3/4q3/4K3 w"),
    "case, in FEN, with one answer": ("How many kings? 4k3/4Q3/4K3 w", "How many kings? 4k3/4q3/4K3 w"),
    f"indentation, {OWN}": (
        "for i in range(3):\n    x += i\n    print(x)", "for i in range(3):\n    x += i\nprint(x)"),
    f"a pattern, {OWN}": (r"Does ^\d+$ match 12?", r"Does ^\D+$ match 12?"),
    f"an accent, {OWN}": ("Translate: a\u00f1o", "Translate: ano"),
    f"the letter of an option, {OWN}": (
        "Which letter stands before Saturn?\nA) Mars\nB) Saturn\nC) Venus",
        "Which letter stands before Saturn?\nA) Saturn\nB) Mars\nC) Venus"),
    "dots of a pattern": ("a..c. +e -b:", "a.c.. +e -b:"),
    "signs of arithmetic": ("What is 3 + 4?", "What is 3 * 4?"),
    "`5!` within another question": ("5!", "What is 5! divided by 5?"),
    "brackets of code": (SHOP, SHOP.replace("* (item.count + item.more)", "* item.count + item.more")),
    "FEN": ("Best move? rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2",
            "Best move? rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 2"),
    "Morse": ("Decode: .... . .-.. .-.. --- / .-- --- .-. .-..", "Decode: .... . .-.. .--. --- / .-- --- .-. .-.."),
    "a regular expression": ("What does ^(a|b)+c?$ match?", "What does ^(a|b)*c?$ match?"),
    "`!=` and `=`": ("Which rows have x != 3?", "Which rows have x = 3?"),
    "`.5` and `5`": ("What is .5 times 12?", "What is 5 times 12?"),
    "a power and a number": ("What is 5\u00b2?", "What is 52?"),
    "its and it's": ("Is this right: its raining", "Is this right: it's raining"),
    "DNA in lower case, one letter": (DNA, DNA.replace("gttacaagct", "gttacaagca")),
    "DNA in words of three letters": (
        "Which protein is this: atg gcc att gta atg ggc cgc tga aag ggt gcc cga tag",
        "Which protein is this: atg gcc att gta atg ggc cgc tga aag ggt gcc cga tat"),
    "what is changed into what": ("Change $50 to \u20ac", "Change \u20ac50 to $"),
    "the order of a list": ("Sort: 1. pear 2. fig 3. apple", "Sort: 1. fig 2. pear 3. apple"),
    "powers in code": ("What is 2**3 + 4**5?", "What is 23 + 45?"),
    "a tag of HTML": ("What does <b> do?", "What does <i> do?"),
    "twelve words of prose": (
        "Write a short and friendly letter to all of our neighbours about noise at night.",
        "Write a short and friendly letter to all of our customers about late deliveries."),
    "Chinese, one character": (
        "\u4e2d\u56fd\u7684\u9996\u90fd\u662f\u54ea\u91cc\uff1f",
        "\u6cf0\u56fd\u7684\u9996\u90fd\u662f\u54ea\u91cc\uff1f"),
    "Thai, one word": (
        "\u0e40\u0e21\u0e37\u0e2d\u0e07\u0e2b\u0e25\u0e27\u0e07\u0e02\u0e2d\u0e07\u0e44\u0e17\u0e22\u0e04\u0e37\u0e2d\u0e2d\u0e30\u0e44\u0e23",
        "\u0e40\u0e21\u0e37\u0e2d\u0e07\u0e2b\u0e25\u0e27\u0e07\u0e02\u0e2d\u0e07\u0e25\u0e32\u0e27\u0e04\u0e37\u0e2d\u0e2d\u0e30\u0e44\u0e23"),
}  # fmt: skip

FAILS = {
    "case, in FEN, with one answer", f"the letter of an option, {OWN}", "options 1, 2, 3 in another order",
    "`<b>`, in a short prompt", "`*` around a word, in a short prompt", "the last sign left out, in a short prompt",
}  # fmt: skip
"""What the rules get wrong, to be seen in the table."""


def kind(what: str) -> str:
    """Return what the evaluation task of a pair is called beside the train task."""
    train, evaluated = (COPIES | DISTINCT)[what]
    it, other = make_task("it", evaluated, "3" if OWN in what else "2", split="test"), make_task("other", train, "2")
    found = find_contamination({"test": [it]}, [other]).found
    return found["it"].kind if "it" in found else "clean"


def table() -> str:
    """Return the table of all pairs, in Markdown."""
    rows = [("copy" if what in COPIES else "distinct", what) for what in COPIES | DISTINCT]
    lines = [f"| {truth} | {what} | {kind(what)}{' (wrong)' * (what in FAILS)} |" for truth, what in rows]
    return "\n".join(["| It is | What was changed, or differs | Found |", "|---|---|---|", *lines])


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
