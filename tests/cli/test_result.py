import io

import pytest

from cli.result import show_summary
from mlops.display.terminal import Terminal


def shown(**changes):
    summary = {
        "status": "not_improved",
        "difference": None,
        "promotion": {"name": "m", "version": None, "alias": None, "reasons": []},
        "ledger": {"sampled": 64, "trained": 60, "filtered": 4, "errored": 0},
        "rounds": 2,
        "seconds": {"total": 3.0},
    }
    console = Terminal(file=io.StringIO(), width=120)
    show_summary(summary | changes, console, where=["Summary: here"])
    return console.file.getvalue()


@pytest.mark.parametrize(("trained", "rounds", "said"), [(60, 2, False), (0, 2, True), (0, 0, False)])
def test_a_run_that_trained_on_nothing_says_so(trained, rounds, said):
    text = shown(ledger={"sampled": 64, "trained": trained, "filtered": 64 - trained, "errored": 0}, rounds=rounds)
    assert ("none of 64 rollouts could be trained on" in text) == said
    assert f"{rounds} rounds, 3 s" in text
