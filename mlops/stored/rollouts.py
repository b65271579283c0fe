"""Rollouts and tasks of a past run: finds those of a round, and makes a record of all that is known about one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

import numpy as np

from mlops.ids import (
    EVALUATION,
    FITTING_TASKS,
    REWARDS,
    ROLLOUTS,
    TASKS,
    TRAIN_REPORT,
    TRAINED,
    UNUSED,
    Stored,
    round_name,
    step_id,
)
from rlft.errors import DamagedError, RlftError
from rlft.outcome import as_text
from rlft.types import Reward, Rewards, Rollout, Rollouts, Task, TaskSet

_ARRAYS = ("token_ids", "loss_mask", "logprobs")
# Steps that a replay has given what another run has stored, as an input of the output's name.
_READERS = {
    ROLLOUTS.output: (REWARDS.step, TRAIN_REPORT.step),
    REWARDS.output: (TRAIN_REPORT.step,),
    TASKS.output: (EVALUATION.step,),
}


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


def load_round(run: str, round: str) -> ScoredRound:
    """Return the rollouts of a round from the stores of this process's stack. Raises RlftError for what is not there.

    They are looked for in all attempts at the run, whichever of them is named.
    """
    from mlops.runs.finding import find_run

    found, name = find_run(run), round_name(round)
    rollouts = stored_output(found, ROLLOUTS, name)
    if rollouts is None:
        known = ["trained (or final)" if each == TRAINED else each for each in _rounds(found)]
        names = ", ".join(known) or "none yet"
        raise RlftError(f"{found.name} has no rollouts of {name!r}", where="ROUND", fix=f"there are: {names}")
    rewards = stored_output(found, REWARDS, name)
    report = stored_output(found, TRAIN_REPORT, name) or stored_output(found, UNUSED, name)
    fates, drawn, age = ({}, {}, None) if report is None else (report.fates, report.drawn, report.age)
    return ScoredRound(name, rollouts, rewards, fates, _tasks(found), drawn, age)


def _tasks(run: Any) -> dict[str, Task]:
    try:
        tasks = stored_output(run, TASKS, "")
    except DamagedError:  # what is asked for are rollouts, which are whole
        return {}
    return {} if tasks is None else tasks.by_id()


def stored_output(run: Any, stored: Stored, name: str) -> Any:
    """Return what a step stored at the call of this name, or `None` if there is no such call or it has not ended.

    What a replay has taken from the run that it is made of counts as its own. Raises DamagedError if the output's files
    are gone, or are not what was stored.
    """
    from mlops.runs.finding import name_of

    artifact = stored_artifact(run, stored, name)
    if artifact is None:
        return None
    try:
        return artifact.load()
    except DamagedError as damage:
        raise damage.of(name_of(run), stored.step_id(name)) from damage


def stored_artifact(run: Any, stored: Stored, name: str) -> Any:
    """Return ZenML's artifact version of what `stored_output` returns, which steps of other runs can be given."""
    from zenml.client import Client

    for attempt in attempts(run):
        for found in Client().list_run_steps(pipeline_run_id=attempt.id, name=stored.step_id(name), size=1):
            if versions := Client().get_run_step(found.id).outputs.get(stored.output):
                return versions[0]
        for reader in _READERS.get(stored.output, ()):
            id_of_reader = step_id(reader, name or TRAINED)
            for found in Client().list_run_steps(pipeline_run_id=attempt.id, name=id_of_reader, size=1):
                if versions := Client().get_run_step(found.id).inputs.get(stored.output):
                    return versions[0]
    return None


def stored_tasks(run: Any) -> TaskSet | None:
    """Return the tasks that a run has used, without those that its model cannot read; `None` if none are stored.

    Raises what `stored_output` does.
    """
    fitting: TaskSet | None = stored_output(run, FITTING_TASKS, "")
    return stored_output(run, TASKS, "") if fitting is None else fitting


def _rounds(run: Any) -> list[str]:
    """Return the names of the rounds of a run, in the order in which they were sampled."""
    from zenml.client import Client

    begins = f"{ROLLOUTS.step}_"
    steps = [
        step
        for attempt in attempts(run)
        for step in Client().list_run_steps(pipeline_run_id=attempt.id, name=f"startswith:{begins}", size=1000)
    ]
    return list(dict.fromkeys(step.name.removeprefix(begins) for step in sorted(steps, key=lambda step: step.created)))


def attempts(run: Any) -> Iterator[Any]:
    """Yield the run first, then the other attempts at it, the newest of them first."""
    from mlops.runs.finding import attempts_of

    yield run
    yield from (other for other in attempts_of(run) if other.id != run.id)
