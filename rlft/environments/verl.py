"""An environment whose reward is a scoring function in verl's form, used unchanged.

Such a function is `compute_score(data_source, solution_str, ground_truth, extra_info)`.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from rlft.environments.contract.loading import load_function
from rlft.environments.trl import FunctionRewards
from rlft.rewards.rubric import UNNAMED
from rlft.types import Trajectory


class VerlRewards(FunctionRewards):
    """Scores an attempt with a scoring function written for verl.

    Parts: `score`. Metrics: all other numbers that the function returns beside it. The function is called by keyword
    with `data_source`, `solution_str` (the last answer's text), `ground_truth` and `extra_info` (a dict, empty where
    the row has none), and returns a number or a dict with `score`; it may be a coroutine function. Tasks are rows in
    verl's form: `prompt`, `data_source`, `reward_model.ground_truth`, `extra_info`. What verl itself adds to
    `extra_info` (`num_turns`, say) is not in it.
    """

    def __init__(
        self,
        compute_score: str,
        reward_kwargs: Mapping[str, Any] | None = None,
        gold_template: str | None = None,
        maxima: Mapping[str, float] | None = None,
        minima: Mapping[str, float] | None = None,
    ) -> None:
        """Load the function `compute_score`, a name `package.module:function` or `path/to/file.py:function`.

        `reward_kwargs` are passed on with every call. `gold_template` is how a full answer is written from the row's
        columns, such as `#### {reward_model[ground_truth]}`; without one the reward audit knows no gold answer.
        `maxima` says what the function returns for a full answer where that is not 1: `{score: 2.0}`;
        `minima` is the lowest that it can return, which intervals of the reward need. Raises `EnvironmentSetupError`
        for a function that cannot be loaded.
        """
        function = load_function(compute_score, "environment.kwargs.compute_score")
        super().__init__([function], gold_template, maxima, minima)
        self.reward_kwargs = dict(reward_kwargs or {})

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Return the score that the function gives the last answer, and the other numbers that it returns.

        Raises what the function raises, and KeyError for a task without `data_source`.
        """
        info = completion.task.info
        # Copies, as what the function changes must not reach the task.
        score = self._functions[0].call(
            data_source=info["data_source"],
            solution_str=completion.whole,
            ground_truth=copy.deepcopy((info.get("reward_model") or {}).get("ground_truth", ground_truth)),
            extra_info=copy.deepcopy(info.get("extra_info") or {}),
            **copy.deepcopy(self.reward_kwargs),
        )
        return _parts(await score if inspect.isawaitable(score) else score)

    def reward_weights(self) -> dict[str, float]:
        """Return weight 1 for `score` and 0, that of a metric, for everything else."""
        return {"score": 1.0, UNNAMED: 0.0}


def _parts(returned: Any) -> dict[str, float | None]:
    """Return the score and the other numbers of what a function returned; texts and lists beside it are left out."""
    if not isinstance(returned, Mapping):
        return {"score": returned}
    if "score" not in returned:
        raise ValueError(f"returned a dict without 'score': {sorted(map(str, returned))}")
    others: dict[str, Any] = {
        str(name): value for name, value in returned.items() if isinstance(value, (Real, np.bool_))
    }
    return {**others, "score": returned["score"]}
