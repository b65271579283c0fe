import io

import pytest

from cli.result import show_summary
from mlops.display.terminal import Terminal
from mlops.runs.summary import Ledger, Seconds, Summary


def shown(**changes):
    summary = Summary(status="not_improved", seconds=Seconds(total=3.0), **changes)
    console = Terminal(file=io.StringIO(), width=120)
    show_summary(summary, console, where=["Summary: here"])
    return console.file.getvalue()


@pytest.mark.parametrize(("trained", "rounds", "said"), [(60, 2, False), (0, 2, True), (0, 0, False)])
def test_a_run_that_trained_on_nothing_says_so(trained, rounds, said):
    text = shown(ledger=Ledger(sampled=64, trained=trained, filtered=64 - trained), rounds=rounds)
    assert ("none of 64 rollouts could be trained on" in text) == said
    assert f"{rounds} rounds, 3 s" in text
