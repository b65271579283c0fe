"""Names by which what a run has stored is found again: of its pipeline, its steps and their outputs, and its attempts.

ZenML has stored them with every run so far, which another name would no longer find.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mlops.registry.names import REGISTRATION

PIPELINE, EVALUATE = "train", "evaluate"
RESCORE, RETRAIN = "rescore", "retrain"
OTHERS = (EVALUATE, RESCORE, RETRAIN)  # pipelines whose runs are not resumed: their command is given again
KINDS = {EVALUATE: "an evaluation", RESCORE: "a rescoring", RETRAIN: "a retraining"}
REPLAY_TAG = "replay_of"  # the key of the tag `replay_of=NAME`, and, after `rlft.`, of the tag of the MLflow run
EXPERIMENT_TAG = "experiment"  # the key of the tag `experiment=NAME` that all runs of an experiment have
RUN_TAG = "run"  # the key of the tag `run=NAME` that all attempts at a run have
_RESUMED = "-resumed-"


@dataclass(frozen=True, slots=True)
class Stored:
    """An output that a `step` stores each time that a run calls it, and the `file` that it is in its folder."""

    step: str
    output: str
    file: str

    def step_id(self, name: str) -> str:
        """Return the id of the step at the call of this name, such as `train_grpo_r007`; without one the step's own."""
        return step_id(self.step, name) if name else self.step

    def readers(self, name: str) -> tuple[str, ...]:
        """Return the ids of the steps that a replay has given, in place of this step, what another run has stored."""
        return tuple(step_id(reader, name or TRAINED) for reader in _READERS.get(self.output, ()))


ROLLOUTS = Stored("generate_rollouts", "rollouts", "rollouts.parquet")
REWARDS = Stored("score_rewards", "rewards", "rewards.parquet")
TRAIN_REPORT = Stored("train_grpo", "train_report", "report.json")
UNUSED = Stored("report_unused", "train_report", "report.json")  # of a round that was sampled and not trained on
AUDIT = Stored("audit_rewards", "reward_audit", "report.json")
TRAINED = "trained"  # the name of the evaluation of the trained policy
EVALUATION = Stored("evaluate_policy", "evaluation", "report.json")
TASKS = Stored("ingest_tasks", "tasks", "tasks.parquet")
FITTING_TASKS = Stored("leave_out_tasks", TASKS.output, TASKS.file)  # where the model cannot read all of them
DRAW = Stored("draw_tasks", "draw", "report.json")
PASS_RATES = Stored("note_pass_rates", "pass_rates", "report.json")
# By output: a replay gives it to these steps as an input of the same name.
_READERS = {
    ROLLOUTS.output: (REWARDS.step, TRAIN_REPORT.step),
    REWARDS.output: (TRAIN_REPORT.step,),
    TASKS.output: (EVALUATION.step,),
}
_OF_A_ROUND = "|".join(stored.step for stored in (DRAW, ROLLOUTS, REWARDS, TRAIN_REPORT, UNUSED, PASS_RATES))


def step_id(step: str, name: str) -> str:
    """Return the id of a step at the call of this name, which a round, a validation or a policy gives it."""
    return f"{step}_{name}"


def round_name(round: int | str) -> str:
    """Return a round as the ids of steps have it: `7` and `r7` become `r007`; other texts, such as `baseline`, stay.

    `final`, which is what the summary calls the trained model, becomes `trained`.
    """
    number = re.fullmatch(r"r?([0-9]+)", str(round))
    return f"r{int(number[1]):03d}" if number else {"final": TRAINED}.get(str(round), str(round))


def validation_name(rounds: int) -> str:
    """Return the name of the validation after so many rounds, such as `validation_r007`."""
    return f"validation_{round_name(rounds)}"


def round_of(step_id: str) -> int | None:
    """Return the round that a step of this id belongs to: 7 for `train_grpo_r007`, none for `..._validation_r007`."""
    found = re.fullmatch(rf"(?:{_OF_A_ROUND})_r([0-9]+)", step_id)
    return int(found[1]) if found else None


def depends_on_champion(step_id: str) -> bool:
    """Return whether what a step of this id made depends on who was champion when its run asked."""
    return step_id in ("fetch_champion", "decide_promotion", REGISTRATION) or step_id.endswith("_champion")


def resumed_name(name: str, attempts: Iterable[str]) -> str:
    """Return the name of the next attempt at a run, by the names of all its attempts.

    Two who resume a run on a stack at the same moment get the same name, which ZenML gives to one of them.
    """
    beginning = f"{name}{_RESUMED}"
    numbers = (each.removeprefix(beginning) for each in attempts if each.startswith(beginning))
    return f"{beginning}{max((int(number) for number in numbers if number.isdecimal()), default=0) + 1}"


def name_of_first(name: str) -> str:
    """Return the name of the run that an attempt of this name resumes, or the name itself."""
    return name.split(_RESUMED)[0]


def is_name_of_attempt(name: str) -> bool:
    """Return whether a name looks like one that `resumed_name` has made."""
    return _RESUMED in name
