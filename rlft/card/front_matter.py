"""The front matter of a model card, as the Hugging Face Hub reads it (huggingface.co/docs/hub/model-cards)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from rlft.card.facts import Facts
from rlft.visible import visible

_HUB = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
_OFF = "off_distribution"


def front_matter(facts: Facts) -> str:
    """Return YAML with the base model, its licence, the library, tags, the data set and the results of the model.

    A base model or data set is named if it is one of the Hub; a path on this machine says nothing to others.
    """
    adapter, licence = facts.policy.get("kind") == "adapter", facts.licence
    base, tasks = facts.base, facts.config["tasks"]
    data = ModelCardData(
        base_model=base if base and _is_of_the_hub(base) else None,
        base_model_relation=("adapter" if adapter else "finetune") if base and _is_of_the_hub(base) else None,
        library_name="peft" if adapter else "transformers",
        pipeline_tag="text-generation",
        license=licence.id if licence else None,
        license_name=(licence.name or None) if licence else None,
        license_link=(licence.link or None) if licence else None,
        tags=["rlft", "grpo", "reinforcement-learning"],
        datasets=list(dict.fromkeys(each["path"] for each in _sources(tasks) if _is_hub_data(each))) or None,
        model_name=_line(facts.name),
        eval_results=list(_results(facts)),
    )
    return data.to_yaml()


def _results(facts: Facts) -> Iterator[EvalResult]:
    """Yield the mean of each metric that models are compared by, on each split, with its interval in the name."""
    metric = facts.config["evaluation"]["metric"]
    tasks = facts.config["tasks"]
    for split, report in facts.reports.get("trained", {}).items():
        interval = report.metrics.get(metric)
        if interval is None:
            continue
        others = [each[_OFF] for each in _sources(tasks) if each.get(_OFF)] if split == _OFF else []
        name = ", ".join(dict.fromkeys(map(_data_name, others or _sources(tasks))))
        yield EvalResult(
            task_type="text-generation",
            dataset_type=name,
            dataset_name=name,
            dataset_split=split,
            metric_type=metric,
            metric_name=f"{metric} (95 % interval {interval.low:.4f} to {interval.high:.4f}, {interval.count} tasks)",
            metric_value=round(interval.mean, 6),
        )


def _data_name(source: Mapping[str, Any]) -> str:
    """Return the name of a data set of the Hub or of a generator; of a file its own name, without where it lies."""
    path = source.get("path")
    if path is None:
        return _line(str(source.get("generator")))
    return path if _is_hub_data(source) else _line(Path(path).name)


def _sources(tasks: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the section `tasks` of each of several environments, or the one that there is."""
    return list((tasks.get("members") or {"": tasks}).values())


def _is_hub_data(source: Mapping[str, Any]) -> bool:
    return source.get("source") == "huggingface" and _is_of_the_hub(source["path"])


def _is_of_the_hub(name: str) -> bool:
    return bool(_HUB.fullmatch(name)) and not Path(name).exists()


def _line(text: str) -> str:
    return " ".join(visible(text).split())[:200]
