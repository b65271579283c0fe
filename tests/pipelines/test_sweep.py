"""pipelines.sweep: what stands in MLflow and in the summary of a sweep."""

from __future__ import annotations

import getpass
import sys

import pytest

from mlops.home.folder import Home
from mlops.summary.summary import Difference, Summary
from mlops.tracking.run import Tracker
from pipelines.sweep import (
    SweptRun,
    _description,
    _metrics,
    _settings,
    base_name,
    open_sweep,
    result_of,
    status_text,
    table_of,
)
from rlft.config.file import load_config
from tests.e2e.conftest import TINY

LONG = "Think step by step, and write the answer between tags: "


def test_the_run_of_a_sweep_says_who_began_it_by_which_command(monkeypatch, tmp_path):
    given = {}
    monkeypatch.setattr(sys, "argv", ["/usr/bin/rlft", "run", "configs/tiny.yaml", "--sweep", "seed=0,1"])
    monkeypatch.setattr(Tracker, "__init__", lambda self, *_, **options: given.update(options))
    open_sweep(Home(tmp_path), load_config(TINY), "sqlite:///x.db", "tries", ["seed=0,1"])
    assert given["tags"]["mlflow.source.name"] == "rlft run tiny.yaml --sweep seed=0,1"
    assert given["tags"]["mlflow.user"] == getpass.getuser()
    assert given["tags"]["mlflow.source.type"] == "LOCAL"
    assert given["tags"]["rlft.sweep"] == "seed=0,1"


def run(changes, after, **errors):
    """A run that ended well, with a gain over 0.25 whose interval over tasks is 0.1 to either side."""
    gain = after - 0.25
    change = Difference(
        metric="accuracy",
        before=0.25,
        after=after,
        mean=gain,
        ci_low=gain - 0.1,
        ci_high=gain + 0.1,
        tasks=40,
        **errors,
    )
    return SweptRun("r", changes, 0, Summary(status="improved", difference=change))


def test_a_run_has_the_interval_of_its_gain_with_errors_on_either_side():
    worse = run({}, 0.5, errors=2, ci_low_errors=0.05, ci_high_errors=0.4).score
    assert worse is not None
    assert (worse.gain_low, worse.gain_high) == (0.05, 0.4)
    (listed, failed) = result_of([run({}, 0.5), SweptRun("f", {}, 1, None)], ["r", "f"])["runs"]
    assert (listed["gain_low"], listed["gain_high"]) == pytest.approx((0.15, 0.35))
    assert {name: failed[name] for name in ("metric", "before", "after", "gain_low", "gain_high")} == dict.fromkeys(
        ("metric", "before", "after", "gain_low", "gain_high")
    )


def test_settings_whose_names_are_cut_off_keep_their_own_metrics_and_rows():
    runs = [
        run({"environment.system_prompt": LONG + end, "seed": "0"}, after) for end, after in (("A", 0.5), ("B", 1.0))
    ]
    found = _metrics(_settings(runs))
    assert sorted(value for name, value in found.items() if name.startswith("0_result/after/")) == [0.5, 1.0]
    first, second = table_of(runs).rows
    assert first[0] != second[0]


def test_the_start_is_told_beside_the_score_and_the_gain():
    # Starts of 0.25, scores of 0.5 and 1: means of 0.25, 0.75 and 0.5.
    runs = [run({"seed": "0"}, 0.5), run({"seed": "1"}, 1.0)]
    found = _metrics(_settings(runs))
    assert [found[f"0_result/{name}"] for name in ("after", "before", "gain")] == pytest.approx([0.75, 0.25, 0.5])
    # The interval of a run's own `_low` and `_high` is over tasks; that of the sweep, over seeds, has another name.
    names = "after", "after_over_seeds_low", "after_over_seeds_high", "before", "gain", "gain_low", "gain_high"
    assert sorted(found) == sorted(f"0_result/{name}" for name in names)
    assert result_of(runs, ["a", "b"])["settings"][0]["before"] == pytest.approx(0.25)
    ((_, counted, before, after, *_),) = table_of(runs).rows
    assert (counted, before, after) == ("2 of 2", "accuracy 0.250", "0.750")
    failed = [SweptRun("f", {}, 1, None)]
    assert _metrics(_settings(failed)) == {}
    assert result_of(failed, ["f"])["settings"][0]["before"] is None


def test_runs_that_have_not_begun_are_counted_and_named():
    cut = SweptRun("a", {}, 130, None)
    assert status_text([cut], ["a", "b", "c"]) == "0 of 3 runs ended well; 2 not begun: b, c"
    assert status_text([run({}, 0.5)], ["r"]) == "1 of 1 runs ended well"
    told = status_text([], [f"n{number}" for number in range(12)])
    assert told.endswith("12 not begun: n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, and 2 more")


def test_the_setting_without_swept_ones_is_called_by_what_was_set():
    assert base_name([]) == "as in the config"
    assert base_name(["training.learning_rate=0.5", "training.rounds=2"]) == "learning_rate=0.5,rounds=2"
    assert base_name(["environment.kwargs={a: 1}"]) == "as in the config, but for 1 of --set"
    runs = [run({"seed": "0"}, 0.5)]
    assert table_of(runs, base="rounds=2").rows[0][0] == "rounds=2"
    assert "| rounds=2 |" in _description(_settings(runs), runs, ["r"], "rounds=2")
    swept = [run({"training.rounds": "3"}, 0.5)]
    assert table_of(swept, base="learning_rate=0.5").rows[0][0] == "rounds=3"
