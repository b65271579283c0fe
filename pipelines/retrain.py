"""The pipeline `retrain`: other training on the attempts that a run has stored, evaluated as in that run.

Only the policy's own validations and evaluations are sampled. Rounds whose attempts another policy has sampled are
trained on with importance sampling (`rlft.training.off_policy`).
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zenml import pipeline

from mlops.home.folder import Home, find_home
from mlops.ids import EVALUATION, TASKS, TRAINED, validation_name
from mlops.runs.labels import labels_of
from mlops.runs.policies import noted_weights, stored_policy
from mlops.runs.replayed import Source, StoredRound, find_source, policy_before
from mlops.runs.runtime import code_of_run, start_runtime, stop_runtime
from mlops.summary.arms import arm_metrics
from mlops.summary.replays import RetrainSummary
from mlops.tracking.address import tracking_address
from pipelines.arms import FINAL_SPLITS
from pipelines.judges import meet_judges
from pipelines.replay import begin_replay, changed_sides, difference, noting, open_replay
from pipelines.rounds import Rounds, run_rounds
from pipelines.stages import Artifact, Scored, Stages
from pipelines.watching import Watch
from rlft.config import Config
from rlft.config.file import apply_override, check_config
from rlft.config.training import BudgetConfig
from rlft.distributed.demand import Demand
from rlft.errors import ConfigError
