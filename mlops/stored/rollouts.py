"""A past run, of the home or of a stack: finds it, its tasks, the rollouts of a round, and all that is known of one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mlops.home.folder import Home
from mlops.ids import (
    FITTING_TASKS,
    KINDS,
    OTHERS,
    REWARDS,
    ROLLOUTS,
    TASKS,
    TRAIN_REPORT,
    TRAINED,
    UNUSED,
    round_name,
)
from mlops.runs.listing import list_runs, sweeps_of
from mlops.runs.store import LocalRun, RunStore
from mlops.runs.unknown import unknown_run
from rlft.errors import DamagedError, RlftError
from rlft.outcome import as_text
from rlft.types import Reward, Rewards, Rollout, Rollouts, Task, TaskSet

if TYPE_CHECKING:
    from mlops.stored.shared import SharedRun

Run: TypeAlias = "LocalRun | SharedRun"

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
        from mlops.stacks.stack import connect
        from mlops.stored.shared import SharedRun

        connect(home, stack)
        return SharedRun(home, find_run(asked))
    store = RunStore(home)
    if len(found := store.matching(asked)) == 1:
        return found[0]
    names = [run.name for run in store.runs()]
    raise unknown_run(asked, names, [run.name for run in found], sweeps_of(list_runs(home).runs))


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
