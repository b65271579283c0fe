"""What an evaluation of models came to: the file in its home that people and programs read."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlops.home.folder import Home
from rlft.files import write_file
from rlft.formats import EVALUATION, KEY
from rlft.types import Judging

if TYPE_CHECKING:  # else commands that list runs would import scipy
    from rlft.suites.differences import Pair
    from rlft.suites.measures import CellMeasures

ENDING = ".evaluation.json"


@dataclasses.dataclass
class EvaluationSummary:
    """All that an evaluation came to.

    `models` says by label what each model is, and `scenarios` is {cell: {label: measures by split}}. `differences` are
    the pairs of models, each with its sentence. `contamination` says by cell and split how many tasks are among the
    train tasks of their source, with each model's score on the others, and `forgetting` how many bits per byte each
    model needs for texts that have nothing to do with the tasks. `mlflow_runs` are {cell: {label: id of its MLflow
    run}} below `mlflow_run_id`. `judges` has by stage what judges were asked (`canaries`, and `scenarios` in all), and
    `judge_canaries` what they said of the attempts by which one that has changed is noticed. `status` is `finished`,
    `failed` with the reason in `error`, or `interrupted`, and then the same `command` goes on with it.
    """

    suite: str
    metric: str
    seed: int
    status: str = "interrupted"
    pipeline_run_id: str | None = None
    mlflow_run_id: str | None = None
    models: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    scenarios: dict[str, dict[str, dict[str, Any]]] = dataclasses.field(default_factory=dict)
    differences: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    contamination: dict[str, Any] = dataclasses.field(default_factory=dict)
    forgetting: dict[str, Any] = dataclasses.field(default_factory=dict)
    mlflow_runs: dict[str, dict[str, str | None]] = dataclasses.field(default_factory=dict)
    judges: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    judge_canaries: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    error: str | None = None
    command: str = ""
    format: int = EVALUATION.newest

    def note_judging(self, stage: str, judging: Judging | None) -> None:
        """Note what judges were asked in a stage, if any was."""
        if judging is not None:
            self.judges[stage] = dataclasses.asdict(judging)

    def note_canaries(self, judging: Judging | None, said: list[dict[str, Any]]) -> None:
        """Note what judges said of their canaries, and what that took."""
        self.note_judging("canaries", judging)
        self.judge_canaries = said

    def as_text(self) -> str:
        """Return it as JSON, in ASCII."""
        return json.dumps(dataclasses.asdict(self), indent=1, default=str)


def measures_as_json(measures: CellMeasures) -> dict[str, Any]:
    """Return what was measured of a model on a cell: `splits`, `totals` and `seconds`."""
    found = dataclasses.asdict(measures)
    del found["policy"]
    return found


def pairs_as_json(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Return pairs of models with their sentences."""
    return [{**dataclasses.asdict(pair), "sentence": pair.sentence} for pair in pairs]


def evaluation_file(home: Home, run_id: str) -> Path:
    """Return where the summary of an evaluation lies, by ZenML's id of its run."""
    return home.root / "runs" / f"{run_id}{ENDING}"


def keep_evaluation(home: Home, summary: EvaluationSummary) -> None:
    """Write the summary of an evaluation into its home. Raises OSError."""
    assert summary.pipeline_run_id is not None
    write_file(evaluation_file(home, summary.pipeline_run_id), summary.as_text())


def read_evaluation(home: Home, run_id: str) -> Mapping[str, Any] | None:
    """Return the summary of an evaluation; `None` if there is none that can be read.

    Raises FormatVersionError for a format that is not read.
    """
    file = evaluation_file(home, run_id)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or "scenarios" not in found:
        return None
    EVALUATION.check(found.get(KEY), where=str(file))
    return found


def mlflow_ids(summary: Mapping[str, Any]) -> list[str]:
    """Return the ids of all MLflow runs of an evaluation."""
    below = [one for of_models in summary.get("mlflow_runs", {}).values() for one in of_models.values()]
    return [one for one in (summary.get("mlflow_run_id"), *below) if one]
