"""What a run of a home or of a stack has stored: its tasks, the rollouts of a round, its curves, settings and code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mlops.home.folder import Home
from mlops.ids import (
    EVALUATION,
    FITTING_TASKS,
    KINDS,
    OTHERS,
    RESCORE,
    RETRAIN,
    REWARDS,
    ROLLOUTS,
    TASKS,
    TRAIN_REPORT,
    TRAINED,
    UNUSED,
    round_name,
    validation_name,
)
from mlops.runs.listing import find_local
from mlops.runs.store import LocalRun, stored_config, stored_settings
from mlops.summary.summary import Difference
from rlft.config import Config
from rlft.errors import DamagedError, RlftError
from rlft.outcome import as_text
from rlft.types import EvaluationReport, Reward, Rewards, Rollout, Rollouts, Task, TaskSet, TrainReport

if TYPE_CHECKING:
    from mlops.runs.shared import SharedRun
    from rlft.evaluation.diagnosis.history import History


Run: TypeAlias = "LocalRun | SharedRun"
# The room `rlft.evaluation` loads scipy, for which a command that lists attempts must not wait. So it is
# imported where it is needed.

_ARRAYS = ("token_ids", "loss_mask", "logprobs")


@dataclass(frozen=True, slots=True)
class ScoredRound:
    """The rollouts of one round of a run, their rewards, and the fates that training gave them (none elsewhere).

    `tasks` has each task by its id, where the run's tasks can be read. `drawn` says of each task why it
    was drawn for training, where tasks are not drawn uniformly. `age` is how many rounds of training the policy that
    sampled them was behind the one that was trained on them; `None` outside training.
    """

    name: str
    rollouts: Rollouts
    rewards: Rewards | None
    fates: Mapping[str, str]
    tasks: Mapping[str, Task] = field(default_factory=dict)
    drawn: Mapping[str, str] = field(default_factory=dict)
    age: int | None = None

    def reward_of(self, rollout: Rollout) -> Reward | None:
        """Return the reward of a rollout; `None` if the round was not scored."""
        return next((each for each in self.rewards or () if each.rollout_id == rollout.rollout_id), None)

    def find(self, rollout: str) -> Rollout:
        """Return a rollout by its id, or by its place from 0. Raises RlftError, which suggests similar ids."""
        rows = self.rollouts.rows
        if found := [row for row in rows if row.rollout_id == rollout]:
            return found[0]
        if re.fullmatch(r"[0-9]+", rollout) and int(rollout) < len(rows):
            return rows[int(rollout)]
        near = get_close_matches(rollout, [row.rollout_id for row in rows], n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"give an id, or a number from 0 to {len(rows) - 1}"
        raise RlftError(f"{self.name} has no rollout {rollout!r}", where="ROLLOUT", fix=hint)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a summary of each rollout, as JSON, in the order in which they are stored."""
        totals = {reward.rollout_id: reward for reward in self.rewards or ()}
        for index, rollout in enumerate(self.rollouts):
            reward, task = totals.get(rollout.rollout_id), self.tasks.get(rollout.task_id)
            said = {message["role"]: message["content"] for message in rollout.messages}  # the last of each
            yield {
                "index": index,
                "rollout_id": rollout.rollout_id,
                "prompt": task.text if task else said.get("user"),
                "said": said.get("assistant"),
                "answer": reward and reward.answer,
                "right_answer": task and task.answer,
                "split": task and task.split,
                "total": None if reward is None else reward.total,
                "solved": None if reward is None or reward.total is None else reward.solved,
                "turns": rollout.turns,
                "tool_calls": rollout.tool_calls,
                "tool_errors": rollout.tool_errors,
                "stop_reason": rollout.stop_reason,
                "error": as_text(rollout.error or (reward and reward.error)),
            }

    def record(self, rollout: Rollout) -> dict[str, Any]:
        """Return all that is stored of a rollout, as JSON; its tokens are only counted.

        `tokens` says how many stand in the `prompt`, were `sampled`, and were `told` (by tools and the environment).
        `reward` holds the parts with their weights, `fate` what training made of it (`None` outside training), `age`
        by how many rounds of training the policy that sampled it was older than the one that was trained on it,
        `drawn` why its task was drawn (`None` if every task is drawn as often as any other), and `right_answer` what
        the task has as its answer.
        """
        known = {each.name: getattr(rollout, each.name) for each in fields(Rollout) if each.name not in _ARRAYS}
        sampled = int(np.count_nonzero(rollout.loss_mask))
        tokens = {
            "prompt": rollout.prompt_length,
            "sampled": sampled,
            "told": rollout.completion_length - sampled,
        }
        del known["prompt_length"]
        reward = self.reward_of(rollout)
        return {
            **known,
            "error": as_text(rollout.error),
            "messages": list(rollout.messages),
            "tokens": tokens,
            "reward": None if reward is None or self.rewards is None else reward_record(reward, self.rewards.weights),
            "fate": self.fates.get(rollout.rollout_id),
            "age": self.age,
            "drawn": self.drawn.get(rollout.task_id),
            "right_answer": (task := self.tasks.get(rollout.task_id)) and task.answer,
        }


def reward_record(reward: Reward, weights: Mapping[str, float]) -> dict[str, Any]:
    """Return a reward as JSON, with the weight of each of its parts."""
    return {
        "total": reward.total,
        "parts": dict(reward.parts),
        "weights": {name: weights.get(name, 1.0) for name in reward.parts},
        "solved": reward.solved,
        "answer": reward.answer,
        "error": as_text(reward.error),
        "seconds": reward.seconds,
    }


def open_run(home: Home, asked: str, stack: str | None) -> Run:
    """Return a run by its name or id, or the beginning of either: of the home, or of a stack.

    Raises RlftError if there is none or several.
    """
    if stack is not None:
        from mlops.runs.finding import find_run
        from mlops.runs.shared import SharedRun
        from mlops.stacks.stack import connect

        connect(home, stack)
        return SharedRun(home, find_run(asked))
    return find_local(home, asked)


def refuse_others(run: Run, way_on: str) -> None:
    """Raise RlftError for an evaluation or a replay, of which there is less than of a run that trains."""
    if run.pipeline in OTHERS:
        raise RlftError(f"{run.name} is {KINDS[run.pipeline]}", where="RUN", fix=way_on)


def load_round(run: Run, round: str) -> ScoredRound:
    """Return the rollouts of a round. Raises RlftError for what is not there.

    They are looked for in all attempts at the run, whichever of them is named.
    """
    name = round_name(round)
    rollouts = run.output(ROLLOUTS, name)
    if rollouts is None:
        begin = f"{ROLLOUTS.step}_"
        known = [each.removeprefix(begin) for each in run.step_ids(begin)]
        names = ", ".join("trained (or final)" if each == TRAINED else each for each in known) or "none yet"
        raise RlftError(f"{run.name} has no rollouts of {name!r}", where="ROUND", fix=f"there are: {names}")
    rewards = run.output(REWARDS, name)
    report = run.output(TRAIN_REPORT, name) or run.output(UNUSED, name)
    fates, drawn, age = ({}, {}, None) if report is None else (report.fates, report.drawn, report.age)
    return ScoredRound(name, rollouts, rewards, fates, _tasks(run), drawn, age)


def _tasks(run: Run) -> dict[str, Task]:
    try:
        tasks = run.output(TASKS, "")
    except DamagedError:  # what is asked for are rollouts, which are whole
        return {}
    return {} if tasks is None else tasks.by_id()


def stored_tasks(run: Run) -> TaskSet | None:
    """Return the tasks that a run has used, without those that its model cannot read; `None` if none are stored.

    Raises what `Run.output` does.
    """
    fitting: TaskSet | None = run.output(FITTING_TASKS, "")
    return run.output(TASKS, "") if fitting is None else fitting


def make_history(
    config: Config, rounds: Sequence[TrainReport], validations: Mapping[int, EvaluationReport], train_tasks: int
) -> History:
    """Return the curves of a run with the settings of its config that a diagnosis names."""
    from rlft.evaluation.diagnosis.history import History

    training = config.training
    return History(
        rounds=rounds,
        validations=validations,
        metric=config.chosen_by,
        train_tasks=train_tasks,
        num_generations=training.num_generations,
        learning_rate=training.learning_rate,
        max_completion_length=config.rollout.max_completion_length,
        honest=config.monitors.honest or "",
    )


def stored_change(run: Run) -> Difference | None:
    """Return how the trained model of a run differs from its start on the test split; `None` if nobody measured it."""
    summary = run.summary()
    return summary.difference if summary is not None else None


def stored_history(run: Run) -> History:
    """Return the history of a past run. Raises RlftError for a run that has trained no round."""
    from rlft.evaluation.evaluate import compared_by

    refuse_others(run, "diagnose the run whose attempts it has used; `rlft ui` shows its own curves")
    rounds, validations = stored_curves(run)
    if not rounds:
        raise RlftError(
            f"{run.name} has finished no round",
            where="RUN",
            fix="`rlft runs` says how it ended; `rlft resume` goes on with one that was cut short",
        )
    tasks = stored_tasks(run)
    config, baseline = stored_config(run.config, run.name), run.output(EVALUATION, "baseline")
    if baseline is not None:
        config = config.comparing(compared_by(config.evaluation.metric, baseline.splits["validation"]))
    return make_history(config, rounds, validations, 0 if tasks is None else len(tasks.split("train")))


def stored_curves(run: Run) -> tuple[list[TrainReport], dict[int, EvaluationReport]]:
    """Return the reports of a run's rounds, and its validations by the number of rounds before them."""
    rounds, validations = list(_rounds(run)), {}
    for number in range(len(rounds) + 1):
        if (evaluation := run.output(EVALUATION, validation_name(number))) is not None:
            validations[number] = evaluation.splits["validation"]
    return rounds, validations


def _rounds(run: Run) -> Iterator[TrainReport]:
    """Yield the reports of a run's rounds, up to the first that it has not."""
    number = 0
    while (report := run.output(TRAIN_REPORT, round_name(number))) is not None:
        yield report
        number += 1


_MADE_BY = {"harness": (ROLLOUTS, "environment_fingerprint"), "reward": (REWARDS, "reward_fingerprint")}


def replay_of_run(run: Run) -> dict[str, Any]:
    """Return what a replay is made of: its `kind`, the run, and how it was trained; empty of any other run."""
    if run.pipeline not in (RESCORE, RETRAIN):
        return {}
    given = run.parameters
    of_training = {key: given[key] for key in ("from_round", "correction") if key in given}
    return {"kind": run.pipeline, "of": given.get("source"), **of_training}


def settings_of_run(run: Run) -> dict[str, Any]:
    """Return the config of a run as a mapping, with the metric that it found; empty if none is stored.

    Raises FormatVersionError.
    """
    from rlft.evaluation.evaluate import compared_by

    settings = stored_settings(run.config, run.name)
    evaluation, baseline = settings.get("evaluation") or {}, run.output(EVALUATION, "baseline")
    if baseline is not None and evaluation.get("metric") == "auto":
        evaluation["metric"] = compared_by("auto", baseline.splits["validation"])
    return settings


def code_of_run(run: Run) -> dict[str, str]:
    """Return the commits of the user's code that the run noted, and the fingerprints of harness and reward."""
    commits: dict[str, str] = (run.parameters.get("labels") or {}).get("commits") or {}
    found = {f"commit of {place}": commit for place, commit in commits.items()}
    for what, (stored, parameter) in _MADE_BY.items():
        if value := run.noted_of_step(stored, TRAINED, parameter):
            found[f"fingerprint of {what}"] = value
    return found
