"""Evaluates the models of `rlft evaluate` on a suite's scenarios: the same tasks, prompts and seeds for all.

What a step has stored for the same tasks, settings, code and weights is taken from the cache, so another policy costs
no more than its own attempts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from mlops.ids import REWARDS, ROLLOUTS, step_id
from mlops.runs.runtime import pipeline_environment
from pipelines.showing import Show, unshown
from pipelines.stages import Artifact
from rlft.config import Cell, EngineSettings, SuiteConfig
from rlft.config.environment import unscored
from rlft.environments.fingerprints import EnvironmentFingerprints, environment_fingerprints
from rlft.errors import ConfigError
from rlft.evaluation.forgetting import TextBits, compare_bits, comparison_sentences, fingerprint_texts, shipped_texts
from rlft.evaluation.slices import slices_of
from rlft.evaluation.suites.measures import CellMeasures
from rlft.harness.rollout import SamplingSettings, Selection
from rlft.tasks.contamination import ContaminationReport, clean_scores, found_sentence
from rlft.types import Evaluation
from steps.evaluation import evaluate_scenario, measure_forgetting, take_as_one_split
from steps.round import generate_rollouts, score_rewards
from steps.tasks import find_contamination, ingest_tasks

STEPS = [
    ingest_tasks,
    take_as_one_split,
    generate_rollouts,
    score_rewards,
    evaluate_scenario,
    find_contamination,
    measure_forgetting,
]
"""The steps that are called here; a pipeline names them in its `depends_on`."""
ASKED = "it is behind an address, which tells no probabilities of a text"
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
    cells = suite.cells()
    prints = {cell.name: _fingerprints(cell) for cell in cells}
    names = step_names(list(policies))
    found: dict[str, dict[str, Evaluated]] = {cell.name: {} for cell in cells}
    for name, policy in policies.items():  # a model at a time, since few stay in memory
        fresh = name in asked and not suite.cache_endpoint
        for cell in cells:
            place = f"{LABEL}_{cell.name.replace('-', '__')}_{names[name]}"
            made = _evaluate(suite, cell, prints[cell.name], policy, tasks[cell.name], place, show, fresh=fresh)
            found[cell.name][name] = made
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


def _fingerprints(cell: Cell) -> EnvironmentFingerprints:
    environment = pipeline_environment(cell.environment)
    return environment_fingerprints(environment, cell.environment.name, cell.environment.kwargs)


def _evaluate(
    suite: SuiteConfig,
    cell: Cell,
    prints: EnvironmentFingerprints,
    policy: Artifact,
    tasks: Artifact,
    place: str,
    show: Show,
    *,
    fresh: bool,
) -> Evaluated:
    selection = Selection(
        label=LABEL, num_generations=cell.sampling.num_generations, count=cell.num_tasks, splits=cell.splits
    )
    sample = generate_rollouts.with_options(enable_cache=False) if fresh else generate_rollouts
    with show(f"rollouts {place}", "sampling"):
        rollouts = sample(
            tasks,
            policy,
            selection,
            sampling_of(suite, cell),
            unscored(cell.environment),
            prints.harness,
            suite.policy.device,
            id=ROLLOUTS.step_id(place),
        )
    with show(f"scores {place}"):
        rewards = score_rewards(
            tasks, rollouts, cell.environment, cell.reward, prints.reward, id=REWARDS.step_id(place)
        )
    with show(f"evaluation {place}"):
        evaluation, measures = evaluate_scenario(
            tasks, rollouts, rewards, cell.slices, id=step_id("evaluate_scenario", place)
        )
    return Evaluated(tasks, rollouts, rewards, evaluation.load(), measures.load())


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


def suite_forgetting(
    suite: SuiteConfig, policies: Mapping[str, Artifact], asked: set[str], show: Show = unshown
) -> dict[str, TextBits]:
    """Return how well each model predicts the shipped texts, by label; `asked` are those behind an address."""
    texts, ids = fingerprint_texts(shipped_texts()), step_names(list(policies))
    found = dict[str, TextBits]()
    for label, policy in policies.items() if suite.forgetting else ():
        if label in asked:
            found[label] = TextBits({}, dict.fromkeys(shipped_texts(), ASKED))
            continue
        with show(f"forgetting {label}", "model"):
            place = step_id("measure_forgetting", ids[label])
            found[label] = measure_forgetting(policy, suite.policy.device, texts, id=place).load()
    return found


def forgetting_as_json(found: Mapping[str, TextBits], margin: float) -> dict[str, Any]:
    """Return bits per byte by model and text, why some are left out, and how each pair of models differs."""
    pairs = []
    for first, second in combinations(found, 2):
        changes = compare_bits(found[second], found[first], margin)
        if changes:
            texts = {name: dataclasses.asdict(each) for name, each in changes.items()}
            sentences = comparison_sentences(first, second, changes, margin)
            pairs.append({"first": first, "second": second, "texts": texts, "sentences": sentences})
    return {
        "models": {
            label: {"bits_per_byte": {name: fmean(bits) for name, bits in each.bits.items()}, "left_out": each.left_out}
            for label, each in found.items()
        },
        "pairs": pairs,
    }


def suite_contamination(
    suite: SuiteConfig,
    tasks: Mapping[str, Artifact],
    results: Mapping[str, Mapping[str, Evaluated]],
    show: Show = unshown,
) -> dict[str, Any]:
    """Return for each cell and split how many tasks are among the train tasks of their source, and scores without them.

    Tasks that were not evaluated do not count: with `num_tasks` they may be most of a split. A cell whose source has no
    train tasks is left out.
    """
    found = dict[str, Any]()
    for cell in suite.cells():
        if not tasks[cell.name].load().split("train"):
            continue
        with show(f"contamination {cell.name}"):
            place = step_id("find_contamination", cell.name.replace("-", "__"))
            report = find_contamination(tasks[cell.name], cell.splits, None, "", id=place).load()
        found[cell.name] = {
            split: _of_split(report, split, suite.main_metric, cell.slices, results[cell.name])
            for split in cell.splits
            if report.splits.get(split)
        }
    return found


def _of_split(
    report: ContaminationReport, split: str, metric: str, columns: list[str], of_models: Mapping[str, Evaluated]
) -> dict[str, Any]:
    reports = [each.evaluation.splits[split] for each in of_models.values() if split in each.evaluation.splits]
    evaluated = {task for ours in reports for task in ours.groups}
    report = dataclasses.replace(report, splits={split: tuple(id for id in report.splits[split] if id in evaluated)})
    counts, scores = report.counts(split), dict[str, Any]()
    for label, each in of_models.items():
        ours = each.evaluation.splits.get(split)
        if ours is None or not ours.per_task.get(metric):
            continue
        tried = [task for task in each.tasks.load().split(split) if task.id in ours.groups]
        sliced = {
            f"{column}={value}": ids
            for column, values in slices_of(tried, columns).items()
            for value, ids in values.items()
        }
        every = {"all": frozenset(task.id for task in tried)}
        found = clean_scores(ours, report, metric, {**every, **sliced})
        scores[label] = {name: dataclasses.asdict(score) for name, score in found.items()}
    return {**counts, "sentence": found_sentence(report, split), "scores": scores}


def caveat_metrics(
    label: str, cell: str, contamination: Mapping[str, Any], forgetting: Mapping[str, Any]
) -> dict[str, float]:
    """Return what stands beside a model's scores at a cell, as numbers for a tracker; both mappings are as above."""
    flat = dict[str, float]()
    for split, found in contamination.get(cell, {}).items():
        flat |= {f"contamination/{split}/{kind}": float(found[kind]) for kind in ("exact", "overlapping")}
        clean = found["scores"].get(label, {}).get("all", {}).get("clean")
        if clean is not None:
            ends = {"clean": clean["mean"], "clean_low": clean["low"], "clean_high": clean["high"]}
            flat |= {f"contamination/{split}/{name}": value for name, value in ends.items()}
    bits = forgetting.get("models", {}).get(label, {}).get("bits_per_byte", {})
    return flat | {f"forgetting/{name}/bits_per_byte": value for name, value in bits.items()}
