"""Every setting. Strict and frozen: an unknown key, a wrong type or an impossible pair is an error.

Names are TRL's where TRL has one. Importable without torch, so that a config is checked before anything is loaded.
docs/guide/settings.md lists all of them, made from here.
"""

from rlft.config.environment import EnvironmentConfig, HarnessConfig, RewardConfig
from rlft.config.evaluation import BaselineConfig, EvaluationConfig, PromotionConfig, TrackingConfig
from rlft.config.experiment import Config
from rlft.config.policy import FromScratchConfig, KeepConfig, LoraSettings, PolicyConfig, WarmStartConfig
from rlft.config.rollout import EngineSettings, RolloutConfig, ServerSettings, VllmSettings
from rlft.config.section import Section
from rlft.config.tasks import SourceConfig, SplitsConfig, TasksConfig
from rlft.config.training import TrainingConfig

__all__ = [
    "BaselineConfig",
    "Config",
    "EngineSettings",
    "EnvironmentConfig",
    "EvaluationConfig",
    "FromScratchConfig",
    "HarnessConfig",
    "KeepConfig",
    "LoraSettings",
    "PolicyConfig",
    "PromotionConfig",
    "RewardConfig",
    "RolloutConfig",
    "Section",
    "ServerSettings",
    "SourceConfig",
    "SplitsConfig",
    "TasksConfig",
    "TrackingConfig",
    "TrainingConfig",
    "VllmSettings",
    "WarmStartConfig",
]
