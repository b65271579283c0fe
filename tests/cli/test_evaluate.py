"""cli.evaluate: where the summary of an evaluation goes."""

from __future__ import annotations

import json

import pytest

from cli.evaluate import finish_evaluation, show_evaluation
from mlops.summary.file import SUMMARY_FILE, EvaluationSummary
from rlft.files import write_file
from rlft.reporting.terminal import Terminal

METRICS = {name: {"mean": 0.975, "low": 0.925, "high": 1.0, "count": 80} for name in ("accuracy", "reward")}


def measures(**changes):
    """What the summary says of one model at one split."""
    found = {"metrics": METRICS, "slices": {}, "tasks": 80, "attempts": 80, "num_samples": 1, "errors": {}}
    return {"splits": {"test": found | changes}}


def shown(capsys, width=200, **scenarios):
    """What is printed of an evaluation with these cells, {cell: {label: measures}}."""
    models = {label: {"model": label, "kind": "weights"} for of_models in scenarios.values() for label in of_models}
    found = {"metric": "accuracy", "seconds": 1.0, "models": models, "scenarios": scenarios, "differences": []}
    show_evaluation(found, Terminal(width=width), [])
    return capsys.readouterr().out


def test_a_summary_that_cannot_be_written_where_it_was_asked_for_is_told_and_named_where_it_is(tmp_path, capsys):
    folder, file = tmp_path / "own", tmp_path / "file"
    file.touch()  # no folder, so that nothing can be written below it
    write_file(folder / SUMMARY_FILE, EvaluationSummary("quick", "accuracy", 0, status="finished").as_text())
    finish_evaluation(folder, file / "summary.json", as_json=False)
    said = capsys.readouterr()
    assert f"Summary: {folder / SUMMARY_FILE}" in said.out.replace("\n", "")
    assert "could not be written to" in said.err
    finish_evaluation(folder, tmp_path / "summary.json", as_json=False)
    assert f"Summary: {tmp_path / 'summary.json'}" in capsys.readouterr().out.replace("\n", "")
    assert json.loads((tmp_path / "summary.json").read_text())["suite"] == "quick"


@pytest.mark.parametrize(("stack", "command"), [(None, "rlft ui\n"), ("our team", "rlft ui --stack 'our team'\n")])
def test_the_way_to_mlflow_is_that_of_the_stack(tmp_path, capsys, stack, command):
    folder = tmp_path / "own"
    write_file(folder / SUMMARY_FILE, EvaluationSummary("quick", "accuracy", 0, status="finished").as_text())
    finish_evaluation(folder, None, stack, as_json=False)
    assert f"MLflow: {command}" in capsys.readouterr().out


LONG = "a-model-whose-name-is-as-long-as-names-of-runs-are-2026-11-25"


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("models", [1, 2, 5])
def test_no_number_is_cut_however_narrow_the_terminal_is(capsys, width, models):
    means = {name: {"mean": 0.5 + n / 10, "low": 0.25, "high": 1.0, "count": 80} for n, name in enumerate(("reward",))}
    sliced = {"level": {"1": METRICS, "2": METRICS}}
    metrics = METRICS | means | {"tool_calls": means["reward"], "sampled_tokens": means["reward"]}
    of_models = {f"{LONG}-{n}": measures(metrics=metrics, slices=sliced) for n in range(models)}
    printed = shown(capsys, width, held_out=of_models)
    lines = printed.splitlines()
    assert max(map(len, lines)) <= width
    assert "\u2026" not in printed  # rich's sign for what it has cut
    # Of each model the accuracy in all and in two slices; of each its reward.
    assert sum(line.count("0.975 [0.925, 1.000]") for line in lines) == 3 * models
    assert sum(line.count("0.500 [0.250, 1.000]") for line in lines) == models


def test_a_row_for_each_number_names_its_metric_and_model(capsys):
    printed = shown(capsys, 80, held_out={"first-best": measures(num_samples=8), f"second-{LONG}": measures()})
    assert printed.splitlines()[2].split()[:5] == ["avg@8", "first-best", "0.975", "[0.925,", "1.000]"]


def test_what_an_alias_stood_for_is_told(capsys):
    models = {
        "mirror-champion": {"model": "models:/mirror@champion", "kind": "registry", "version": "3", "round": 4},
        "first-best": {"model": "first:best", "kind": "run", "round": 12},
        "first-start": {"model": "first:start", "kind": "run", "round": 0},
        "gpt2": {"model": "gpt2", "kind": "weights", "round": 0},
    }
    found = {"metric": "accuracy", "seconds": 1.0, "models": models, "scenarios": {}, "differences": []}
    show_evaluation(found, Terminal(width=80), [])
    assert capsys.readouterr().out.splitlines()[:3] == [
        "mirror-champion is models:/mirror@champion (version 3)",
        "first-best is first:best (after 12 rounds)",
        "4 models, 1 s",
    ]
