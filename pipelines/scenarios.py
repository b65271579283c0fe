"""Evaluates the models of `rlft evaluate` on a suite's scenarios: the same tasks, prompts and seeds for all.

What a step has stored for the same tasks, settings, code and weights is taken from the cache, so another policy costs
no more than its own attempts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mlops.ids import step_id
from mlops.runs.runtime import pipeline_environment
from pipelines.showing import Show, unshown
from pipelines.stages import Artifact, Place, attempt
from rlft.config import Cell, EngineSettings, SuiteConfig
from rlft.environments.fingerprints import environment_fingerprints
from rlft.errors import ConfigError
from rlft.evaluation.suites import CellMeasures
from rlft.harness.rollout import SamplingSettings
from rlft.tasks.curriculum import Selection
from rlft.types import Evaluation
from steps.evaluation import evaluate_scenario, take_as_one_split
from steps.round import generate_rollouts, score_rewards
from steps.tasks import ingest_tasks

STEPS = [ingest_tasks, take_as_one_split, generate_rollouts, score_rewards, evaluate_scenario]
"""The steps that are called here; a pipeline names them in its `depends_on`."""
LABEL = "suite"  # begins the ids of rollouts, and is part of their seeds


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Holds the artifacts of one policy at one cell; what all use is loaded: `evaluation` and `measures`."""

    tasks: Artifact
    rollouts: Artifact
    rewards: Artifact
    evaluation: Evaluation
    measures: CellMeasures


def ingest_suite(suite: SuiteConfig, show: Show = unshown) -> dict[str, Artifact]:
    """Return the tasks of each cell, {cell: artifact}; what is read from the same source is read once."""
    found: dict[str, Artifact] = {}
    read: dict[str, Artifact] = {}
    for cell in suite.cells():
        key = f"{cell.is_whole} {cell.environment.name} {cell.tasks.model_dump_json()}"
        if key not in read:
            with show(f"tasks {cell.scenario}"):
                tasks = ingest_tasks(cell.tasks, cell.environment.name, id=step_id("ingest_tasks", cell.scenario))
                if cell.is_whole:
                    tasks = take_as_one_split(tasks, id=step_id("take_as_one_split", cell.scenario))
                read[key] = tasks
        found[cell.name] = read[key]
    return found


def check_slices(suite: SuiteConfig, tasks: Mapping[str, Artifact]) -> None:
    """Raise ConfigError if a scenario's `slices` name a column that none of the tasks of its splits has."""
    for cell in suite.cells():
        if not cell.slices:
            continue
        tried = [task for task in tasks[cell.name].load().tasks if task.split in cell.splits]
        columns = sorted({column for task in tried for column in task.info})
        if missing := [column for column in cell.slices if column not in (*columns, "environment")]:
            raise ConfigError(
                f"no task of its splits has the column {missing[0]!r}",
                where=f"scenarios.{cell.scenario}.slices",
                fix=f"name some of these: {', '.join(columns)}" if columns else "leave slices out: no task has columns",
            )


def evaluate_scenarios(
    suite: SuiteConfig,
    policies: Mapping[str, Artifact],
    tasks: Mapping[str, Artifact],
    *,
    show: Show = unshown,
    asked: Collection[str] = (),
) -> dict[str, dict[str, Evaluated]]:
    """Evaluate policy artifacts, {name: artifact}, on the cells of a suite; returns {cell: {name: results}}.

    Call it in the body of a dynamic pipeline whose `depends_on` has `STEPS`. The names end the ids of steps: they have
    to differ from each other within a run. `tasks` are those of `ingest_suite`. `asked` are the names of models behind
    an address (`AskedModel`): their answers come from no cache unless `suite.cache_endpoint`.
    """
    cells, places = suite.cells(), dict[str, Place]()
    for cell in cells:
        environment = pipeline_environment(cell.environment)
        prints = environment_fingerprints(environment, cell.environment.name, cell.environment.kwargs)
        places[cell.name] = Place(cell.environment, cell.reward, prints, suite.policy.device, show)
    names = step_names(list(policies))
    found: dict[str, dict[str, Evaluated]] = {cell.name: {} for cell in cells}
    for model, policy in policies.items():  # a model at a time, since few stay in memory
        fresh = model in asked and not suite.cache_endpoint
        for cell in cells:
            name, mine = f"{LABEL}_{cell.name.replace('-', '__')}_{names[model]}", tasks[cell.name]
            selection = Selection(
                label=LABEL, num_generations=cell.sampling.num_generations, count=cell.num_tasks, splits=cell.splits
            )
            scored = attempt(places[cell.name], mine, policy, selection, sampling_of(suite, cell), name, fresh=fresh)
            with show(f"evaluation {name}"):
                evaluation, measures = evaluate_scenario(
                    mine, scored.rollouts, scored.rewards, cell.slices, id=step_id("evaluate_scenario", name)
                )
            made = Evaluated(mine, scored.rollouts, scored.rewards, evaluation.load(), measures.load())
            found[cell.name][model] = made
    return found


def step_names(names: Sequence[str]) -> dict[str, str]:
    """Return for each name one of letters, digits and `_`, all different, that ids of steps can end with."""
    found: dict[str, str] = {}
    for name in names:
        plain = made = re.sub(r"[^A-Za-z0-9_]", "_", name)
        number = 2
        while made in found.values():
            made, number = f"{plain}_{number}", number + 1
        found[name] = made
    return found


def sampling_of(suite: SuiteConfig, cell: Cell) -> SamplingSettings:
    """Return how the attempts of a cell are sampled."""
    way = cell.sampling
    assert way.max_completion_length is not None
    return SamplingSettings(
        temperature=way.temperature,
        top_p=way.top_p,
        top_k=way.top_k,
        min_p=way.min_p,
        max_completion_length=way.max_completion_length,
        batch_size=suite.rollout.batch_size,
        seed=suite.seed,
        engine=EngineSettings(**{name: getattr(suite.rollout, name) for name in EngineSettings.model_fields}),
        harness=cell.harness,
    )
