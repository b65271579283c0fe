"""What a rescoring or a retraining of a run came to: the file in its home that people and programs read."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlops.home.folder import Home
from rlft.files import write_file
from rlft.formats import KEY, REPLAY
from rlft.types import Judging

ENDING = ".replay.json"


@dataclasses.dataclass
class ReplaySummary:
    """What all replays have: the run that they are made from, how they ended, and what must be known to read them.

    `kind` is `rescore` or `retrain`, `source` the name of the run, with its ids in ZenML and MLflow. `status` is
    `finished`, `failed` with the reason in `error`, or `interrupted`, and then the same `command` goes on with it.
    `notes` are sentences: what it can tell, and what it cannot. `judges` has by stage what judges were asked, as in the
    summary of a run.
    """

    kind: str
    name: str
    source: str
    source_run_id: str
    source_mlflow_run_id: str | None = None
    status: str = "interrupted"
    error: str | None = None
    command: str = ""
    pipeline_run_id: str | None = None
    mlflow_run_id: str | None = None
    seconds: float = 0.0
    notes: list[str] = dataclasses.field(default_factory=list)
    judges: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def note_judging(self, stage: str, judging: Judging | None) -> None:
        """Note what judges were asked in a stage, if any was; it is added to what the stage has by then."""
        if judging is not None:
            before = self.judges.get(stage)
            self.judges[stage] = dataclasses.asdict(judging if before is None else Judging(**before) + judging)

    def as_text(self) -> str:
        """Return it as JSON, in ASCII."""
        return json.dumps({KEY: REPLAY.newest, **dataclasses.asdict(self)}, indent=1, default=str)


@dataclasses.dataclass
class RescoreSummary(ReplaySummary):
    """What stored attempts are worth under another reward.

    `weights` are those of the new reward's parts. `rounds` has by number what changes in each round
    (`rlft.rewards.rescored.RescoreReport`), `total` the sums. `audit` is the report of the reward audit under the new
    reward, `audit_before` that of the run, `None` where there is none. `evaluations` has by arm (`base`, `warm_start`,
    `trained`) and split the means of the evaluations under the reward of the run (`before`) and the new one (`after`),
    and `gain` how much better the trained model is than the one that training started from, by both. `left_out` counts
    attempts at tasks that the new config does not have.
    """

    weights: dict[str, float] = dataclasses.field(default_factory=dict)
    rounds: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    total: dict[str, Any] | None = None
    audit: dict[str, Any] | None = None
    audit_before: dict[str, Any] | None = None
    evaluations: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    gain: dict[str, Any] = dataclasses.field(default_factory=dict)
    left_out: int = 0


@dataclasses.dataclass
class RetrainSummary(ReplaySummary):
    """What other training makes of the stored attempts of a run.

    `changes` are the settings that differ, as {setting: [of the run, of this training]}. Training began with the policy
    before `from_round`, and did `rounds` rounds; `best_round` is the number of rounds, those of the run before
    `from_round` included, after which the policy in `final` was best in validation. `correction` is how attempts of
    another policy were weighted. `off_policy` says of each round whether the policy had sampled its attempts itself
    (`on_policy`; an `age` of 1 is that of a round before, as a lag has it),
    how many of its own they weigh as much as (`effective_sample_ratio`), their mean weight before the bound
    (`mean_weight`, 1 where it would sample them as often) and the share that the bound cuts (`capped_ratio`).
    `alarms` are what monitors have seen (`mlops.summary.sections.AlarmSection`).
    `validation` has the means of both by the number of rounds. `final` and `source_final` are the means of the best
    policy of each on the evaluated splits, as in the summary of a run, and `difference` is theirs on `test`, this minus
    the run's; `None` if there is nothing to compare.
    """

    metric: str = "accuracy"
    changes: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    from_round: int = 0
    rounds: int = 0
    best_round: int | None = None
    stopped: str = ""
    correction: str | None = None
    off_policy: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    alarms: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    ledger: dict[str, int] = dataclasses.field(default_factory=dict)
    validation: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    final: dict[str, float] = dataclasses.field(default_factory=dict)
    source_final: dict[str, float] = dataclasses.field(default_factory=dict)
    difference: dict[str, Any] | None = None


def replay_file(home: Home, run_id: str) -> Path:
    """Return where the summary of a replay lies, by ZenML's id of its run."""
    return home.root / "runs" / f"{run_id}{ENDING}"


def keep_replay(home: Home, summary: ReplaySummary) -> None:
    """Write the summary of a replay into its home. Raises OSError."""
    assert summary.pipeline_run_id is not None
    write_file(replay_file(home, summary.pipeline_run_id), summary.as_text())


def read_replay(home: Home, run_id: str) -> Mapping[str, Any] | None:
    """Return the summary of a replay; `None` if there is none that can be read. Raises FormatVersionError."""
    file = replay_file(home, run_id)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or not {"kind", "source", "mlflow_run_id"} <= found.keys():
        return None
    REPLAY.check(found.get(KEY), where=str(file))
    return found
