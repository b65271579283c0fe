"""cli.result: the attempt that trains removed policies again. With real runs: tests/e2e/test_lag.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cli.result import with_weights
from mlops.runs import finding
from mlops.runs import policies as retention
from mlops.runs import resuming as damage
from rlft.errors import WeightsRemovedError


class Pipeline:
    """Notes how it is replayed."""

    def with_options(self, *, run_name):
        self.name = run_name
        return self

    def replay(self, **given):
        self.given = given
        return "another"


def removed():
    raise WeightsRemovedError("the weights of round 1 were removed", where="a")


@pytest.mark.parametrize("name", ["x", "x-resumed-1"])
def test_another_attempt_at_the_same_run_makes_the_weights_again(name, monkeypatch, capsys):
    forgotten, asked, ended = [], [], SimpleNamespace(id="7")
    monkeypatch.setattr("zenml.client.Client.get_pipeline_run", lambda _, *given, **__: asked.append(given) or ended)
    monkeypatch.setattr(damage, "steps_with_weights", lambda run: {"ingest_tasks"} if run is ended else None)
    monkeypatch.setattr(finding, "attempts_of", lambda run: [SimpleNamespace(name="x-resumed-1")])
    monkeypatch.setattr(retention, "forget_removed", lambda: forgotten.append(True))
    pipeline = Pipeline()
    assert with_weights(removed, pipeline, {"config": {}}, name) == "another"
    assert asked == [(name,)]
    assert forgotten == [True]
    assert pipeline.name == "x-resumed-2"
    assert pipeline.given == {"pipeline_run": "7", "skip": {"ingest_tasks"}, "input_overrides": {"config": {}}}
    assert "removed; they are trained again, from cached rollouts" in " ".join(capsys.readouterr().err.split())


def test_what_has_its_weights_is_begun_once():
    assert with_weights(lambda: "first", Pipeline(), {}, "x") == "first"
