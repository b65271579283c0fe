"""What stands beside an evaluation of models: tasks that are among the train tasks, and what else models predict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from itertools import combinations
from statistics import fmean
from typing import Any

from mlops.ids import step_id
from pipelines.scenarios import Evaluated, step_names
from pipelines.showing import Show, unshown
from pipelines.stages import Artifact
from rlft.config import SuiteConfig
from rlft.contamination import ContaminationReport, clean_scores, found_sentence
from rlft.forgetting import TextBits, compare_bits, comparison_sentences, fingerprint_texts, shipped_texts
from rlft.slices import slices_of
from steps.find_contamination import find_contamination
from steps.measure_forgetting import measure_forgetting

STEPS = [find_contamination, measure_forgetting]
"""The steps that are called here."""
ASKED = "it is behind an address, which tells no probabilities of a text"


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
