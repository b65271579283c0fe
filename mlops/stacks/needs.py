"""What a pipeline needs where it runs: the configs of its work, and code and variables that none of them names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlft.config import Config, SuiteConfig
from rlft.config.code import Code
from rlft.config.file import variables_of
from rlft.config.policy import PolicyConfig
from rlft.config.rollout import RolloutConfig
from rlft.suites.models import ModelName


@dataclass(frozen=True, slots=True)
class Needs:
    """Configs, and beside them code, and variables as (setting, name). An image is made for the first config."""

    configs: tuple[Config, ...]
    code: tuple[Code, ...] = ()
    more_variables: tuple[tuple[str, str], ...] = ()

    def variables(self) -> Iterator[tuple[str, str]]:
        """Yield (setting, name) of every variable that is read."""
        for config in self.configs:
            yield from variables_of(config)
        yield from self.more_variables


def needs_of_suite(suite: SuiteConfig, models: Sequence[ModelName], key: str | None) -> Needs:
    """Return what an evaluation needs; `key` is `env:NAME` if a model's key is in a variable.

    Each scenario, and each model that may be a folder, is a config of a run that would need the same. These are not
    validated, as no such run is begun.
    """
    [first, *others] = [each.name for each in models if each.kind == "weights"] or [""]
    configs = [_as_of_run(suite, name, first) for name in suite.scenarios]
    configs += [_as_of_run(suite, next(iter(suite.scenarios)), folder) for folder in others]
    scorers = (name.rpartition(":")[0] for name in suite.scorers if ":" in name)
    code = tuple(Code("scorers", Path(file), is_module=False) for file in scorers if file.endswith(".py"))
    return Needs(tuple(configs), code, (("--api-key-env", key.removeprefix("env:")),) if key else ())


def _as_of_run(suite: SuiteConfig, scenario: str, model: str) -> Config:
    part = suite.scenarios[scenario]
    given = {"tasks": part.tasks, "environment": part.environment, "reward": part.reward}
    return Config.model_construct(
        name=suite.name,
        policy=PolicyConfig.model_construct(model=model or None, chat_template=suite.policy.chat_template),
        rollout=RolloutConfig.model_construct(engine=suite.rollout.engine),
        **{name: each for name, each in given.items() if each is not None},
    )
