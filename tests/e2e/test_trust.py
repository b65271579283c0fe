"""What somebody else's run names is run after one's leave alone: two people, one database of ZenML."""

from __future__ import annotations

import pytest

from tests.e2e.aged import age
from tests.e2e.conftest import ROOT, TINY
from tests.e2e.sharing import ON, Sharing

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


def test_what_another_has_begun_runs_nothing_of_theirs_unasked(tmp_path):
    anna, ben = (Sharing.at(tmp_path, name) for name in ("anna", "ben"))
    assert anna.rlft("stack", str(ROOT / "configs/stacks/local.yaml")).code == 0
    mark = tmp_path / "ran"
    template = f"{{_target_: 'subprocess:getoutput', cmd: 'echo $RLFT_HOME $TOKEN >> {mark}; echo {{answer}}'}}"
    few = ["training.rounds=2", "controls=[]", "reward.audit=false"]
    sets = [word for each in (f"environment.kwargs.gold_template={template}", *few) for word in ("--set", each)]
    cut = anna.rlft("run", str(TINY), *sets, "--name", "evil", *ON, kill_at="rlft.training.job:train_round:2")
    assert cut.code == -9, cut.output
    assert "anna" in mark.read_text()
    mark.unlink()
    age(anna.database)

    for command in (["resume", "evil"], ["promote", "evil"], ["retrain", "evil", "--from-round", "0"]):
        refused = ben.rlft(*command, *ON)
        said = " ".join(refused.output.split())
        assert refused.code == 2, refused.output
        if command[0] == "promote":  # it is not over
            continue
        assert "evil was begun by another account" in said
        assert "call of subprocess:getoutput (environment.kwargs.gold_template._target_)" in said
        assert "--trust" in said
    assert not mark.exists()

    own = anna.rlft("resume", "evil", *ON, kill_at="rlft.training.job:train_round:1")
    assert own.code == -9, own.output  # she is asked nothing
    mark.unlink()
    age(anna.database)
    assert ben.rlft("resume", "evil", *ON).code == 2  # her attempt is not his either
    assert not mark.exists()
    trusted = ben.rlft("resume", "evil", *ON, "--trust")
    assert trusted.code == 0, trusted.output
    assert f"{tmp_path / 'ben'}/.rlft the token of ben" in mark.read_text()
    for changed in (["--set", "promotion.looks=30"], []):  # neither what he has agreed to nor what he has changed of it
        decided = ben.rlft("promote", "evil", *ON, *changed)
        assert decided.code in (0, 7), decided.output
    mark.unlink()
    refused = Sharing.at(tmp_path, "carl").rlft("promote", "evil", *ON)
    assert (refused.code, mark.exists(), "evil was begun by" in refused.output) == (2, False, True)
