"""`rlft diagnose` of a run that the test split shows to be better, which validation is too small for."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from cli import app as cli
from mlops.summary.summary import Difference
from rlft.evaluation.diagnosis.history import Finding
from tests.rlft.evaluation.diagnosis.test_diagnose import history, metrics

GAIN = Difference(metric="accuracy", before=0.25, after=0.375, mean=0.125, ci_low=0.0625, ci_high=0.1875, tasks=400)
SAID = (
    "The trained model is measurably better on the test split: accuracy 25.0 % -> 37.5 % on 400 test tasks "
    "(+12.5 points, 95 % interval +6.2 to +18.8). No validation shows it: its tasks are too few to tell such a "
    "gain from chance. There is nothing to explain."
)
OPEN = GAIN.model_copy(update={"mean": 0.03125, "ci_low": -0.0625, "ci_high": 0.125})
LOSS = GAIN.model_copy(update={"mean": -0.125, "ci_low": -0.1875, "ci_high": -0.0625})
UNKNOWN = "None of 18 checks has found a cause in 3 rounds. Read attempts"
# `rlft.evaluation.power.smallest_gain(400)`, whose own tests derive it: 0.0803
RESOLVES = (
    "With 400 tasks a true change of 8 points is shown in 80% of runs: take more test tasks (tasks.splits) to see"
)


@pytest.fixture
def diagnosed(tmp_path, monkeypatch):
    def ask(validations, gain, *options, rounds=3):
        monkeypatch.setenv("RLFT_HOME", str(tmp_path / "home"))
        monkeypatch.setattr("mlops.runs.results.open_run", lambda home, run, stack: None)
        run = history(*metrics(rounds, kl_update=1e-3, completions__mean_length=100.0), validations=validations)
        monkeypatch.setattr("mlops.runs.results.stored_history", lambda name: run)
        monkeypatch.setattr("mlops.runs.results.stored_change", lambda name: gain)
        result = CliRunner().invoke(cli.make_app(), ["diagnose", "mine", *options])
        assert result.exit_code == 0, result.output
        return result.stdout

    return ask


@pytest.mark.parametrize(
    ("validations", "gain", "said"),
    [
        ((10, 12), GAIN, SAID),
        ((10, 40), GAIN, "Validation is measurably better than before training. The trained model is measurably"),
        ((), GAIN, "+6.2 to +18.8). No validation shows it: its tasks are too few"),
        ((10, 12), None, UNKNOWN),
        ((10, 12), OPEN, RESOLVES),
        ((10, 12), OPEN, "and train for longer."),
        ((10, 12), LOSS, "The trained model is measurably worse on the test split: accuracy"),
        ((10, 12), LOSS, "(`rlft show`), and lower training.learning_rate."),
        ((10, 40), OPEN, "better than before training. The test split does not tell the trained model from what it"),
        ((10, 40), LOSS, "before training. The trained model is measurably worse on the test split"),
    ],
)
def test_a_gain_on_test_is_told(diagnosed, validations, gain, said):
    told = " ".join(diagnosed(validations, gain).split())
    assert said in told
    assert ("nothing to explain" in told) == (gain is GAIN)


@pytest.mark.parametrize(
    ("gain", "risen", "beyond"), [(GAIN, True, True), (OPEN, False, False), (LOSS, False, True), (None, False, None)]
)
def test_a_gain_on_test_counts_as_risen(diagnosed, gain, risen, beyond):
    found = json.loads(diagnosed((10, 12), gain, "--json"))
    assert (found["risen"], found["rounds"], found["findings"]) == (risen, 3, [])
    assert found["test"] == (gain and {**gain.model_dump(mode="json"), "beyond_chance": beyond})


def test_a_finding_names_its_place_in_the_guide(diagnosed, monkeypatch):
    monkeypatch.setattr(
        "rlft.evaluation.diagnosis.monitors.diagnose", lambda history: [Finding("truncation", "Cut off.", "Raise it.")]
    )
    [found] = json.loads(diagnosed((10, 12), None, "--json"))["findings"]
    guide = "docs/guide/diagnosis.md#truncation"
    assert found == {"cause": "truncation", "what": "Cut off.", "remedy": "Raise it.", "guide": guide}
