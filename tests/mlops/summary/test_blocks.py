"""What came of a run is told in one order, wherever it is told."""

from __future__ import annotations

import re
from io import StringIO

import pytest

from cli.result import show_summary
from mlops.summary.summary import Contamination, Difference, Ledger, Promotion, Seconds, Summary
from mlops.summary.verdict import DISAGREE, blocks, results
from mlops.summary.version_facts import verdict_blocks
from rlft.reporting.model_card import model_card
from rlft.reporting.page import ReportFacts, make_page
from rlft.reporting.terminal import Terminal
from rlft.texts.blocks import Bullets, Caution, Headline, paragraph
from tests.rlft.reporting.version_facts import make_facts


def minus(before, after, low):
    mean = after - before
    return Difference(metric="accuracy", before=before, after=after, mean=mean, ci_low=low, ci_high=mean + 0.1, tasks=9)


SUMMARY = Summary(
    status="improved",
    base={"accuracy": 0.1},
    final={"accuracy": 0.6},
    difference=minus(0.1, 0.6, 0.4),
    controls={"sft": {"accuracy": 0.6}},
    difference_controls={"sft": minus(0.6, 0.6, -0.1)},
    differences={"rewards/a": minus(0.1, 0.6, 0.4), "rewards/b": None},
    collapsed="one answer makes up most of its attempts",
    contamination={"test": Contamination(tasks=9, exact=1, overlapping=0, sentence="One of 9 tasks is not new.")},
    ledger=Ledger(sampled=9, trained=8, errored=1),
    promotion=Promotion(name="m", version="3", alias="challenger", reasons=["fails: base"]),
    rounds=2,
    seconds=Seconds(total=3),
)
COLLAPSED, CONTROL = "The trained model says little", "SFT on your gold answers reaches 60.0 %"
VERDICT, NOT_NEW = "The trained model is better than what it started from:", "One of 9 tasks is not new."
NUMBERS = "accuracy 10.0 % -> 60.0 % on 9 test tasks (+50.0 points, 95 % interval +40.0 to +60.0)"


def test_what_must_be_read_first_comes_first_and_the_decision_behind_the_results():
    told = [
        (type(block).__name__, block if isinstance(block, str) else getattr(block, "text", ""))
        for block in blocks(SUMMARY)
    ]
    kinds = [kind for kind, _ in told]
    assert kinds == [
        "Caution", "Caution", "Headline", "Table", "str", "Caution", "Table", "Bullets", "Caution", "str"
    ]  # fmt: skip
    for (_, text), begins in zip(told, [COLLAPSED, CONTROL, f"{VERDICT} {NUMBERS}."], strict=False):
        assert text.startswith(begins)
    assert told[5][1] == NOT_NEW
    assert told[7][1] == "Not promoted: 1 of 1 rules fails. Registry when the run ended: m version 3, alias challenger"
    assert told[8:] == [("Caution", "1 of 9 rollouts errored and were left out"), ("str", "2 rounds, 3 s")]
    assert list(results(SUMMARY)) == list(blocks(SUMMARY))[:7]


def terminal():
    console = Terminal(file=StringIO(), width=1000)
    show_summary(SUMMARY, console, where=["Summary: here"])
    return console.file.getvalue()


@pytest.mark.parametrize(
    "tell",
    [
        terminal,
        lambda: make_page(ReportFacts("first", list(blocks(SUMMARY)), "accuracy")),
        lambda: model_card(make_facts(results=list(results(SUMMARY)), simpler=())),
    ],
    ids=["terminal", "page", "card"],
)
def test_everybody_who_tells_it_keeps_the_order(tell):
    text = re.sub("</?span[^>]*>", "", tell()).replace("\\", "").replace("&gt;", ">")
    places = [text.index(each) for each in (COLLAPSED, CONTROL, VERDICT, NUMBERS, NOT_NEW)]
    assert places == sorted(places)
    assert text.count(NOT_NEW) == 1


def test_a_version_is_headed_by_the_verdict_with_what_must_be_read_before_it():
    told = verdict_blocks({"summary": SUMMARY.model_dump(mode="json")})
    assert [type(block) for block in told] == [Caution, Caution, Headline]
    assert "\n".join(map(paragraph, told)).startswith(f"> {COLLAPSED}")


def test_what_kept_a_version_from_being_promoted_stands_before_all_that_passed():
    said = [
        "look 2 of 20 at this gate",
        "passes: base",
        "fails: accuracy on gate of trained minus warm start",
        "passes: not shown worse than base in a",
        "fails: length",
    ]
    promotion = Promotion(name="m", version="3", alias="challenger", reasons=said)
    [told] = [each for each in blocks(SUMMARY.model_copy(update={"promotion": promotion})) if isinstance(each, Bullets)]
    assert told.text == "Not promoted: 2 of 4 rules fail. Registry when the run ended: m version 3, alias challenger"
    assert told.items == (DISAGREE, said[2], said[4], said[0], said[1], said[3])
