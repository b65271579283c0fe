"""Calls every step with the settings of a config, so that the body of `train` reads as the sequence of stages.

- `experiment`: all of them, for one experiment
- `preparing`: before the first round: tasks, audit, policies, warm start
- `training`: within a round: draw, attempts, scores, update
- `evaluating`: evaluations, constant answers, contamination, forgetting
- `calls`: what they share: sample and score, and evaluate that
"""

from pipelines.stages.calls import Artifact, Scored
from pipelines.stages.experiment import Stages

__all__ = ["Artifact", "Scored", "Stages"]
