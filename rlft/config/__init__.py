"""All settings of an experiment. An unknown key, a wrong type or settings that contradict each other are an error.

A setting that TRL has too carries TRL's name. The room can be imported without torch, so that a config is checked
before anything is loaded. `docs/guide/settings.md` lists all settings and is made from these classes.
"""

from rlft.config.environment import EnvironmentConfig, HarnessConfig, RewardConfig
from rlft.config.evaluation import (
    BaselineConfig,
    EvaluationConfig,
    ModelControl,
    PromotionConfig,
    TrackingConfig,
)
from rlft.config.experiment import Config
from rlft.config.policy import FromScratchConfig, KeepConfig, LoraSettings, PolicyConfig, WarmStartConfig
from rlft.config.rollout import DistributedConfig, EngineSettings, RolloutConfig, ServerSettings, VllmSettings
from rlft.config.section import Section
from rlft.config.suite import Cell, ScenarioConfig, SuiteConfig, SuiteSampling, SuiteSection
from rlft.config.tasks import SourceConfig, SplitsConfig, TasksConfig, UseConfig
from rlft.config.training import MonitorsConfig, TrainingConfig

__all__ = [
    "BaselineConfig",
    "Cell",
    "Config",
    "DistributedConfig",
    "EngineSettings",
    "EnvironmentConfig",
    "EvaluationConfig",
    "FromScratchConfig",
    "HarnessConfig",
    "KeepConfig",
    "LoraSettings",
    "ModelControl",
    "MonitorsConfig",
    "PolicyConfig",
    "PromotionConfig",
    "RewardConfig",
    "RolloutConfig",
    "ScenarioConfig",
    "Section",
    "ServerSettings",
    "SourceConfig",
    "SplitsConfig",
    "SuiteConfig",
    "SuiteSampling",
    "SuiteSection",
    "TasksConfig",
    "TrackingConfig",
    "TrainingConfig",
    "UseConfig",
    "VllmSettings",
    "WarmStartConfig",
]
