"""A better prompt: would written instructions do, without any training, or what another model makes of them?"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from rlft.config.evaluation import ModelControl
from rlft.config.section import Text
from rlft.evaluation.arms.base import PromptArm

if TYPE_CHECKING:
    from rlft.engines.chat_endpoint import ChatEndpoint
    from rlft.evaluation.searches.prompts import PromptReport, PromptSearch
    from rlft.evaluation.searches.validator import Terms, Validator
    from rlft.harness.rollout import Player
    from rlft.progress import Progress
    from rlft.types import Task

logger = logging.getLogger(__name__)


class Prompt(PromptArm):
    """Is the base model with the best of your written instructions, alone or several, in its system prompt.

    With `reflection` another model rewrites the best of them by what went wrong with it at train tasks (GEPA, Agrawal
    et al. 2025, arXiv:2507.19457).
    """

    name: ClassVar[str] = "prompt"
    label: ClassVar[str] = "base model with better instructions"
    by_default: ClassVar[bool] = False
    example: ClassVar[dict[str, Any]] = {"prompt": ["Think step by step."]}

    prompt: list[Text] = Field(
        min_length=1,
        max_length=50,
        description="Instructions, each of which is tried at the end of the task's own system prompt.",
    )
    reflection: ModelControl | None = Field(
        default=None,
        description="A model behind an `endpoint` that rewrites the best instructions by what went wrong with them at "
        "train tasks (GEPA). null tries the written ones alone.",
    )
    trials: int = Field(
        default=400,
        ge=1,
        le=1_000_000,
        description="With `reflection`, at most so many attempts at train tasks, and no more than the budget pays for.",
    )

    @field_validator("reflection")
    @classmethod
    def _has_an_endpoint(cls, reflection: ModelControl | None) -> ModelControl | None:
        if reflection is not None and reflection.endpoint is None:
            raise ValueError("the model that reflects is asked at an address; give it an `endpoint`")
        return reflection

    def check_here(self) -> None:
        """Raise ConfigError if the key of the model that reflects is not set."""
        if self.reflection is not None:
            with closing(_open(self.reflection)):
                pass

    def validations(self) -> tuple[int, int]:
        """Return those of no instructions, of each alone, of the unions of the best, and of what was made of them."""
        return 1, 2 * len(set(self.prompt)) + (_REWRITTEN if self.reflection else 0)

    def decisive(self) -> dict[str, Any]:
        """Return its settings; the model that reflects is known by its name and address."""
        asked = self.reflection and {"model": self.reflection.model, "endpoint": self.reflection.endpoint}
        return {**super().decisive(), "reflection": asked}

    def choose(self, player: Player, validator: Validator, terms: Terms, progress: Progress) -> PromptReport:
        """Try no instructions, each alone, and then the best with the next best as long as that does better.

        This is forward selection by validation: of n instructions it tries 1 + n prompts and at most n - 1 unions. What
        a model that reflects makes of the best of these is validated, too.
        """
        del progress
        from rlft.evaluation.searches.prompts import PromptSearch
        from rlft.harness.attempt import Examples

        search = PromptSearch(player, validator, terms)
        search.consider(None)
        for text in dict.fromkeys(self.prompt):
            search.consider(Examples(instructions=text))
        alone = [trial for trial in search.trials if trial.instructions and trial.validation is not None]
        ranked = sorted(alone, key=lambda trial: -(trial.validation or 0.0))
        joined = [trial.instructions for trial in ranked[:1]]
        for trial in ranked[1:]:
            best = search.chosen.instructions
            if best and best == JOINT.join(joined):
                search.consider(Examples(instructions=JOINT.join([*joined, trial.instructions])))
                if search.chosen.instructions != best:
                    joined.append(trial.instructions)
        if self.reflection is not None:
            _rewrite(search, self.reflection, self.trials)
        return search.report()


JOINT = "\n\n"
_NAME = "instructions"
_REWRITTEN = 3  # of the texts that do best at train tasks, so many are validated
_FULL_LOOKS = 15  # attempts are spread so that a text that does better can be looked at again on all tasks so often
_FEWEST, _MOST = 4, 100  # train tasks that texts are compared on
_MINIBATCH = 3  # tasks whose attempts one reflection reads
_LONGEST = 4096  # tokens of a reflection and the text that it makes


def _rewrite(search: PromptSearch, reflection: ModelControl, most: int) -> None:
    """Let a model rewrite the best instructions by GEPA on train tasks, and validate those that do best there.

    An endpoint that does not answer ends it: what was validated by then stays.
    """
    from gepa.api import optimize

    from rlft.harness.attempt import Examples
    from rlft.tasks.splits import sample_tasks

    left = search.attempts_left(beside=1)
    attempts = most if left is None else min(most, left)
    count = min(_MOST, max(_FEWEST, attempts // _FULL_LOOKS))
    tasks = sample_tasks(search.validator.tasks.split("train"), count)
    if attempts < 2 * len(tasks) + 2 * _MINIBATCH:
        logger.info("no instructions are rewritten: the budget pays for %d attempts at train tasks", attempts)
        return
    with closing(_open(reflection)) as endpoint:
        asked = _Reflection(endpoint)
        found = optimize(
            seed_candidate={_NAME: search.chosen.instructions},
            trainset=list(tasks),
            adapter=_Attempts(search),
            reflection_lm=asked,
            reflection_minibatch_size=_MINIBATCH,
            skip_perfect_score=False,
            # An iteration looks at two minibatches and, if the new text does better, at all tasks.
            max_metric_calls=attempts - len(tasks) - 2 * _MINIBATCH,
            stop_callbacks=[lambda gepa_state: bool(asked.problem)],
            logger=_Quiet(),
            seed=search.validator.sampling.seed,
        )
    if asked.problem:
        logger.warning("instructions are not rewritten any more: %s", asked.problem)
    ranked = sorted(zip(found.val_aggregate_scores, found.candidates, strict=True), key=lambda each: -each[0])
    tried = {trial.instructions for trial in search.trials}
    texts = dict.fromkeys(text for _, candidate in ranked if (text := candidate[_NAME].strip()) not in tried)
    for text in list(texts)[:_REWRITTEN]:
        search.consider(Examples(instructions=text))


def _open(reflection: ModelControl) -> ChatEndpoint:
    from rlft.engines.chat_endpoint import ChatEndpoint
    from rlft.harness.asked import asked_model

    return ChatEndpoint(asked_model(reflection), where="controls.reflection.api_key")


class _Reflection:
    """Asks the model that reflects, as GEPA calls it: with a text, or with messages.

    GEPA asks again when this raises, so `problem` says why nothing is asked any more.
    """

    def __init__(self, endpoint: ChatEndpoint) -> None:
        self._endpoint, self._asked, self.problem = endpoint, 0, ""

    def __call__(self, prompt: str | list[dict[str, Any]]) -> str:
        from rlft.engines.base import Sampling
        from rlft.engines.server_requests import ServerGoneError, ServerRefusedError

        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        self._asked += 1
        if self.problem:
            raise ServerGoneError(self.problem)
        try:
            answer = self._endpoint.ask(messages, (), Sampling(1.0, _LONGEST), seed=self._asked)
        except (ServerGoneError, ServerRefusedError) as cause:
            self.problem = str(cause)
            raise
        return str(answer.message.get("content") or "")


class _Attempts:
    """Attempts train tasks with candidate instructions, and tells what came of it, as GEPA's adapters do."""

    propose_new_texts: Any = None  # GEPA's own way of asking is used

    def __init__(self, search: PromptSearch) -> None:
        self._search = search

    def evaluate(self, batch: list[Task], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        """Return GEPA's EvaluationBatch: an answer and a reward for each task, 0 for one without a score."""
        from gepa.core.adapter import EvaluationBatch

        from rlft.harness.attempt import Examples
        from rlft.types.thinking import answer_of

        text = candidate[_NAME].strip()
        by_id = {task.id: task for task in batch}  # a minibatch may hold a task twice
        rollouts, rewards = self._search.attempt(list(by_id.values()), Examples(instructions=text) if text else None)
        scored = {reward.rollout_id: reward for reward in rewards}
        found = {row.task_id: (answer_of(row.messages), scored[row.rollout_id]) for row in rollouts}
        records = [
            {
                "Inputs": [message["content"] for message in task.prompt],
                "Generated Outputs": found[task.id][0],
                "Feedback": _feedback(task, found[task.id][1]),
            }
            for task in batch
        ]
        scores = [found[task.id][1].total or 0.0 for task in batch]
        return EvaluationBatch([found[task.id][0] for task in batch], scores, records if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return what the model reads that reflects."""
        del candidate, components_to_update  # there is one text
        return {_NAME: eval_batch.trajectories}


def _feedback(task: Task, reward: Any) -> str:
    """Return what an attempt at a train task has earned, by its parts, and the right answer, if there is one."""
    if reward.total is None:
        return f"It has no score: {reward.error}"
    parts = ", ".join(f"{name} {score:g}" for name, score in reward.parts.items() if score is not None)
    right = "" if task.answer is None else f" The right answer is {json.dumps(task.answer, ensure_ascii=False)}."
    return f"It earned {reward.total:g} ({parts}).{right}"


class _Quiet:
    """Takes what GEPA prints."""

    def log(self, message: str) -> None:
        """Log a line for those who look for it."""
        logger.debug("%s", message)
