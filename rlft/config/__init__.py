"""All settings of an experiment. An unknown key, a wrong type or settings that contradict each other are an error.

A setting that TRL has too carries TRL's name. The room can be imported without torch, so that a config is checked
before anything is loaded. `docs/guide/settings.md` lists all settings and is made from these classes.
"""

from rlft.config.controls import ControlName, ModelControl
from rlft.config.distributed import DistributedConfig
from rlft.config.environment import EnvironmentConfig, HarnessConfig, RewardConfig
from rlft.config.evaluation import BaselineConfig, EvaluationConfig, TrackingConfig
from rlft.config.experiment import Config
from rlft.config.monitors import MonitorsConfig
from rlft.config.policy import FromScratchConfig, KeepConfig, LoraSettings, PolicyConfig, WarmStartConfig
from rlft.config.promotion import PromotionConfig
from rlft.config.rollout import EngineSettings, RolloutConfig, ServerSettings, VllmSettings
from rlft.config.section import Section
from rlft.config.suite import Cell, ScenarioConfig, SuiteConfig, SuiteSampling, SuiteSection
from rlft.config.tasks import SourceConfig, SplitsConfig, TasksConfig
from rlft.config.training import TrainingConfig
from rlft.config.use import UseConfig

__all__ = [
    "BaselineConfig",
    "Cell",
    "Config",
    "ControlName",
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
