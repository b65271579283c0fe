"""All stages of one experiment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from mlops.runtime.runtime import pipeline_environment
from pipelines.showing import telling_memory, unshown
from pipelines.stages.evaluating import Evaluating
from pipelines.stages.preparing import Preparing
from pipelines.stages.training import Training
from rlft.config import Config
from rlft.fingerprints.identity import environment_fingerprints
from rlft.progress import Progress


@dataclass(frozen=True, slots=True)
class Stages(Preparing, Training, Evaluating):
    """The stages of one experiment, as methods that call a step and return its artifacts.

    A step that a run calls several times has an id of its own at each call, such as `train_grpo_r007`. Every call is
    shown by `show` while it goes on.
    """

    @classmethod
    def of(cls, config: Config, display: Callable[[str], AbstractContextManager[Progress]] = unshown) -> Stages:
        """Make the stages of a config, shown by `display`. Loads the environment to compute its fingerprints."""
        show = telling_memory(config, display)
        with show("environment"):
            environment = pipeline_environment(config.environment)
            prints = environment_fingerprints(environment, config.environment.name, config.environment.kwargs)
        return cls(config, prints, show)
