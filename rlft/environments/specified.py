"""Environments whose reward is a specification (`rlft.rewards.specification`): a plain one, and any other."""

from __future__ import annotations

import json
import types
from importlib.metadata import version
from typing import Any

from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.loading import load_function
from rlft.environments.contract.several import HELD, WRITTEN
from rlft.environments.fingerprints import code_fingerprint, module_code
from rlft.errors import RewardError
from rlft.rewards.specification.grader import Attempt, Helpers, item_of
from rlft.rewards.specification.model import GATE, Specification
from rlft.rewards.specification.scoring import parts_of, score_attempt, written_gold
from rlft.types import Task, Trajectory

_HELPERS = "_rlft_helpers"


class Plain(BaseEnv):
    """Asks for one answer without tools; its reward is a specification.

    A config that has `reward.spec` and no `environment` means this one.
    """

    def __init__(self, system_prompt: str = "") -> None:
        """Set what the model reads before each prompt."""
        self.system_prompt = system_prompt


class SpecifiedReward(BaseEnv):
    """Scores attempts by the specification of its class. Each criterion is a part of the reward, by its name.

    A part has the criterion's weight, maximum and minimum. Where a criterion is essential, the metric `essentials`
    says whether an attempt meets all of them (`rlft.rewards.specification.scoring`).
    """

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Return the score of each criterion, `None` where it does not apply to the task.

        Raises what a grader raises, such as TaskError for a task that lacks a column that a template names.
        """
        specification, helpers = _held(self)
        attempt = Attempt(completion, item_of(completion.task, ground_truth), helpers, completion.peers)
        return parts_of(specification, await score_attempt(specification, attempt))

    async def compute_step_rewards(self, completion: Trajectory, ground_truth: Any) -> dict[str, list[float | None]]:
        """Return nothing: criteria are about whole attempts."""
        del completion, ground_truth
        return {}

    def step_weights(self) -> dict[str, float]:
        """Return nothing, as no part is scored per turn."""
        return {}

    def reward_weights(self) -> dict[str, float]:
        """Return the weights of the criteria."""
        return _held(self)[0].weights()

    def reward_maxima(self) -> dict[str, float]:
        """Return the highest scores of the criteria."""
        return {name: each.maximum for name, each in _held(self)[0].criteria.items()}

    def reward_minima(self) -> dict[str, float]:
        """Return the lowest scores of the criteria."""
        specification, _ = _held(self)
        gate = {GATE: 0.0} if specification.has_gate else {}
        return {name: each.minimum for name, each in specification.criteria.items()} | gate

    def reward_fingerprint(self) -> str:
        """Return what scores depend on: the specification, the code of its graders, and the versions of libraries."""
        specification, _ = _held(self)
        graders = list(specification.graders())
        modules = [load_function(name, "reward.spec", own=True).module for name in specification.functions()]
        content = {
            "specification": specification.scoring(),
            "graders": code_fingerprint("rlft.environments.specified", *(type(each).__module__ for each in graders)),
            "libraries": {name: version(name) for each in graders for name in each.libraries},
            "functions": [module_code(module, "reward.spec") for module in modules],
        }
        return json.dumps(content, sort_keys=True)


def specified(environment_class: type[BaseEnv], content: str) -> type[BaseEnv]:
    """Return a subclass of an environment's class whose reward is a specification, given as JSON text.

    It has the name and the module of that class, whose tools, context and gold completions stay; a specification that
    says how a full answer is written has golds of its own. Raises EnvironmentSetupError for functions that cannot be
    loaded, and RewardError where a judge is asked and there is none.
    """
    specification = Specification.model_validate_json(content)
    space: dict[str, Any] = {
        "__module__": environment_class.__module__,
        "__qualname__": environment_class.__qualname__,
        "__doc__": environment_class.__doc__,
        HELD: specification,
        WRITTEN: environment_class,
        _HELPERS: _helpers(specification),
    }
    if specification.gold is not None:
        space["gold_completion"] = _gold_completion
    # `new_class` finds the metaclass that fits both, such as that of abstract classes.
    bases = (SpecifiedReward, environment_class)
    return types.new_class(environment_class.__name__, bases, {}, lambda names: names.update(space))


def helpers_of(environment: BaseEnv) -> Helpers:
    """Return what the graders of an environment's specification need beside the attempt."""
    return getattr(type(environment), _HELPERS, Helpers())


def _gold_completion(self: BaseEnv, task: Task) -> str:
    """Return the full answer as the specification writes it."""
    template = _held(self)[0].gold
    assert template is not None
    return written_gold(template, Attempt((), item_of(task)))


def _held(environment: BaseEnv) -> tuple[Specification, Helpers]:
    kind = type(environment)
    return getattr(kind, HELD), getattr(kind, _HELPERS)


def _helpers(specification: Specification) -> Helpers:
    judge = None
    if any(each.needs_judge for each in specification.graders()):
        if specification.judge is None:
            raise RewardError(
                "a criterion asks a judge, and there is none",
                where="reward.spec",
                fix="name one under `judge` (endpoint and model), or let another grader decide: most of what can be "
                "said plainly can be checked",
            )
        from rlft.rewards.judges import Answers, ChatJudge, judges_folder

        judge = ChatJudge(specification.judge, Answers(judges_folder()))
    functions = {name: load_function(name, "reward.spec", own=True).call for name in specification.functions()}
    return Helpers(judge=judge, functions=functions)
