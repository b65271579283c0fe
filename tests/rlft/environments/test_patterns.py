import json
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.config.file import load_config
from rlft.environments.patterns import LETTERS, Patterns, read_rules
from rlft.tasks import ingest_tasks
from tests.pattern_rows import FOLDER, HARDER, LENGTH, SHOWN, TASKS, draw, files
from tests.rlft.attempts import audited, make_task
from tests.shipped import ROOT, overrides

PROMPT = "a..c. +e -b:"


@pytest.mark.parametrize(
    ("word", "met"),
    [
        ("adeca", 5),  # five letters, a first, c fourth, an e, no b
        ("adcce", 5),
        (" adeca\n", 5),
        ("adbca", 3),  # no e, and a b
        ("bdeca", 3),  # no a first, and a b
        ("adec", 4),  # four letters
        ("adecaa", 4),
        ("f", 1),  # no b, and nothing else
        ("", 0),
        ("   ", 0),
        ("ADECA", 0),  # no letters of these
        ("adeca.", 0),
        (PROMPT, 0),
    ],
)
def test_a_word_earns_the_share_of_the_rules_that_it_meets(word, met):
    assert Patterns().rules(word, make_task("p", PROMPT, None)) == met / 5


@pytest.mark.parametrize("prompt", ["", ":", "a..c. e", "a..c. +e+b", "a..c. *e", "a..z.", "..... +z", "6 + 3 ="])
def test_a_prompt_that_is_no_pattern_is_an_error(prompt):
    with pytest.raises(ValueError, match="is no pattern such as"):
        Patterns().rules("adeca", make_task("p", prompt, None))


@given(st.sampled_from([TASKS, SHOWN, HARDER]), st.integers(0, 2**32))
def test_a_drawn_word_meets_all_rules_of_its_prompt(kind, seed):
    for prompt, word in draw(kind, 3, seed):
        assert Patterns().rules(word, make_task("p", prompt, None)) == 1.0
        in_place = len(re.findall("[a-f]", prompt.split()[0].rstrip(":")))
        assert len(read_rules(prompt)) == 1 + in_place + len(re.findall("[-+]", prompt))


def test_the_shipped_rows_are_those_that_are_drawn():
    assert {name: (FOLDER / name).read_text() for name in files()} == files()


def test_many_answers_are_right_and_few_words_are():
    # What makes it a task for a check: of all 7,776 words of five letters, some meet the rules, and most do not.
    words = ["".join(random.Random(number).choices(LETTERS, k=LENGTH)) for number in range(2000)]
    shares = []
    for row in (FOLDER / "patterns.jsonl").read_text().splitlines()[:60]:
        rules = read_rules(json.loads(row)["prompt"])
        shares.append(sum(all(rule(word) for rule in rules) for word in words) / len(words))
    assert max(shares) < 0.15
    assert min(shares) > 0


def test_the_audit_passes_without_gold_answers():
    config = load_config(ROOT / "configs" / "demo.yaml", overrides("demo", FOLDER))
    tasks = ingest_tasks(config.tasks, environment=config.environment.name, seed=0).split("train")
    assert [task.answer for task in tasks] == [None] * len(tasks)
    report = audited(tasks, Patterns(), timeout_seconds=5.0)
    assert report.passed, report
