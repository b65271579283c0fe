"""Reads a suite: from a YAML file of its own, or from a config, whose sections its scenarios take over."""

from __future__ import annotations

import difflib
from pathlib import Path

from rlft.config.evaluation import AttemptsConfig
from rlft.config.experiment import Config
from rlft.config.file import check_config, check_settings, read_with_files
from rlft.config.suite import ScenarioConfig, SuiteConfig, SuitePolicy, SuiteRollout, SuiteSampling, SuiteSection
from rlft.errors import ConfigError
from rlft.texts.secrets import require
from rlft.types import Split

OWN = "own"  # the scenario of a config that names none
_OF_CONFIG = {"tasks", "environment", "environments"}  # sections that every config has, and no suite


def load_suite(path: Path, overrides: list[str] | None = None) -> SuiteConfig:
    """Read the suite at `path`, apply the overrides (`key.of.setting=value`) and check it.

    A file with `scenarios` is a suite of its own, one with tasks or an environment a config. Raises ConfigError, which
    names the file, the key and what to do.
    """
    content, files = read_with_files(path, overrides, example="configs/suites/demo.yaml")
    if "scenarios" in content:
        page = "docs/guide/evaluation.md"
        return check_settings(SuiteConfig, content, where=str(path), page=page, files=files)
    if not _OF_CONFIG & content.keys():
        near = difflib.get_close_matches("scenarios", map(str, content), n=1)
        raise ConfigError(
            "this is neither a suite (it has no scenarios) nor a config (it has neither tasks nor an environment)",
            where=str(path),
            fix=f"did you mean scenarios? the file has {near[0]}" if near else "start from configs/suites/demo.yaml",
        )
    return suite_of(check_config(content, where=str(path), files=files), where=str(path))


def suite_of(config: Config, *, where: str = "") -> SuiteConfig:
    """Return the suite of a config: its section `suite`, or else its own splits as one scenario.

    What a scenario leaves out is that of the config. Raises ConfigError for what fits no suite.
    """
    section = config.suite or SuiteSection(scenarios={OWN: _own(config)})
    scenarios = {
        name: scenario.model_copy(
            update={
                "tasks": scenario.tasks or config.tasks,
                "environment": scenario.environment or config.environment,
                "reward": scenario.reward or config.reward,
                "harness": scenario.harness or config.harness,
            }
        )
        for name, scenario in section.scenarios.items()
    }
    engine = {name: getattr(config.rollout, name) for name in SuiteRollout.model_fields}
    if not config.rollout.kind.restarts:
        engine |= {"engine": "auto", "server": type(config.rollout.server)()}
    loaded = {name: getattr(config.policy, name) for name in SuitePolicy.model_fields}
    content = {
        **{name: getattr(section, name) for name in SuiteSection.model_fields},
        "name": config.name,
        "seed": config.seed,
        "metric": section.metric or (None if config.evaluation.metric == "auto" else config.evaluation.metric),
        "scenarios": {name: scenario.model_dump() for name, scenario in scenarios.items()},
        "policy": SuitePolicy(**loaded).model_dump(),
        "rollout": SuiteRollout(**engine).model_dump(),
        "experiment": config.tracking.experiment,
    }
    return check_settings(SuiteConfig, content, where=where or config.name, page="docs/guide/evaluation.md")


def _own(config: Config) -> ScenarioConfig:
    splits: list[Split] = ["test", "gate"]
    if config.tasks.has_off_distribution:
        splits.append("off_distribution")
    attempts = {name: getattr(config.evaluation, name) for name in AttemptsConfig.model_fields}
    slices = ["environment"] if config.environments else []
    return ScenarioConfig(splits=splits, sampling=[SuiteSampling(**attempts)], slices=slices)


def check_suite_variables(suite: SuiteConfig) -> None:
    """Raise ConfigError if an environment variable that a setting names is not set."""
    for name, scenario in suite.scenarios.items():
        if scenario.environment is not None:
            require(scenario.environment.kwargs, f"scenarios.{name}.environment.kwargs")
