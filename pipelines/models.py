"""The models that `rlft evaluate` is given: looked up, then opened as policy artifacts or as models behind an address.

They are looked up before an evaluation begins: then a mistyped one leaves no run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities.model_registry import RegisteredModel

from mlops.home.folder import Home, find_home
from mlops.ids import PIPELINE, step_id
from mlops.registry.client import NamedVersion, find_version, unless_absent
from mlops.registry.names import CHAMPION
from mlops.runs.finding import find_run, name_of
from mlops.runs.policies import stored_policy
from mlops.tracking.address import answering, tracking_address
from pipelines.scenarios import sampling_of, step_names
from pipelines.showing import Show, unshown
from pipelines.stages import Artifact
from rlft.config import ModelControl, PolicyConfig, SuiteConfig
from rlft.engines.chat_endpoint import AskedModel
from rlft.errors import ConfigError, EngineError, RlftError
