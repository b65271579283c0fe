"""What a version of a policy tells about itself: its model card, as the Hugging Face Hub reads it, and other files.

The card's format is that of huggingface.co/docs/hub/model-cards. What comes from models and users is escaped in it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData
from markupsafe import Markup

from rlft.config import RewardConfig
from rlft.config.yaml_text import write_yaml
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.several import Several
from rlft.reporting.template import open_template
from rlft.texts.blocks import Block, bullets, fenced, paragraph, plain
from rlft.texts.characters import visible, visible_json
from rlft.texts.secrets import hide, hide_secrets, redact
from rlft.training.algorithms import learnt_by
from rlft.types import EvaluationReport


@dataclass(frozen=True, slots=True)
class Facts:
    """Holds what is known of a version.

    `name` is that of the registered model and `run_name` that of the run in ZenML, `run_id` its id in MLflow. `policy`
    is the contents of `policy.json`, `shown` those of `context.json`, `config` the run's settings. `tags` are those of
    the run, and `code` says exactly what ran: commits, fingerprints, versions of packages. `reports` are the
    evaluations of the arms (`base`, `warm_start`, `trained`, `champion`, `constant`) by split, `audit` the report of
    the reward audit, if there was one.

    `source` says in one line where the tasks come from, `sizes` how many each split has, `fingerprint` which they are.
    `reward` are paragraphs on what the reward pays, `results` what came of the run, `simpler`
    those on whether something simpler would do, and `reasons` those of the decision on promotion. `caveats` say what
    the results do not show. All are plain text.
    """

    name: str
    run_name: str
    run_id: str
    policy: Mapping[str, Any]
    shown: Mapping[str, Any]
    config: Mapping[str, Any]
    tags: Mapping[str, str]
    reports: Mapping[str, Mapping[str, EvaluationReport]]
    source: str
    sizes: Mapping[str, int]
    fingerprint: str
    reward: Sequence[str]
    results: Sequence[Block]
    simpler: Sequence[str] = ()
    reasons: Sequence[str] = ()
    caveats: Sequence[str] = ()
    audit: Mapping[str, Any] | None = None
    code: Mapping[str, Any] = field(default_factory=dict)

    @property
    def environment(self) -> str:
        """The name of the environment in the config, or the names of several."""
        return ", ".join(self.config.get("environments", {})) or str(self.config["environment"]["name"])

    @property
    def base(self) -> str | None:
        """The name or folder of the base model; `None` for a model that was made from nothing."""
        return self.policy.get("base_model")


_ALL = "*"  # the key of parts that have none of their own


def reward_by(settings: RewardConfig, environment: BaseEnv, parts: Sequence[str]) -> list[str]:
    """Return what `reward_in_words` says of a reward, of several environments after each one's name."""
    if not isinstance(environment, Several):
        return reward_in_words(environment, parts, settings.weights, settings.full)
    said = list[str]()
    for name, member in environment.members.items():
        own = [part.removeprefix(f"{name}/") for part in parts if part.startswith(f"{name}/")]
        said += [f"In {name}: {each}" for each in reward_by(settings.of_member(name), member, own)]
    return said


def reward_in_words(
    environment: BaseEnv, parts: Sequence[str], weights: Mapping[str, float], full: float | None
) -> list[str]:
    """Return paragraphs that say what the environment pays: its own words, each part, and what counts as solved.

    `parts` are those that were scored, `weights` those of the config, which override the environment's, and `full` the
    total from which an attempt counts as solved, if the config says so. Secrets in docstrings are hidden.
    """
    weight = {**environment.reward_weights(), **weights}
    maxima, minima = environment.reward_maxima(), environment.reward_minima()
    said = [_first_paragraph(type(environment)), _first_paragraph(type(environment).compute_reward)]
    told = [
        text for text, own in zip(said, (BaseEnv, BaseEnv.compute_reward), strict=True) if text != _first_paragraph(own)
    ]
    for part in parts:
        told.append(
            _of_part(environment, part, _get(weight, part, 1.0), _get(maxima, part, 1.0), _get(minima, part, None))
        )
    return [*told, _of_the_whole(full)]


def _get(values: Mapping[str, Any], part: str, default: Any) -> Any:
    return values.get(part, values.get(_ALL, default))


def _of_part(environment: BaseEnv, part: str, weight: float, maximum: float, minimum: float | None) -> str:
    method = getattr(type(environment), part, None)
    words = _first_paragraph(method) if callable(method) else ""
    ends = f"at most {maximum:g}" if minimum is None else f"{minimum:g} to {maximum:g}"
    if weight == 0:
        kind = "a metric, which is not paid"
    elif weight < 0:
        kind = f"a penalty of weight {weight:g}"
    else:
        kind = f"paid with weight {weight:g}, {ends}"
    return f"{part}: {kind}." + (f" {words}" if words else "")


def _of_the_whole(full: float | None) -> str:
    solved = "the total of an attempt that is full in every paid part" if full is None else f"{full:g}"
    return f"The reward of an attempt is the sum of its parts times their weights; it counts as solved from {solved}."


def _first_paragraph(documented: Any) -> str:
    """Return the first paragraph of a docstring in one line, without secrets."""
    text = inspect.getdoc(documented) or ""
    return hide(redact(" ".join(text.split("\n\n")[0].split())))


_ORIGIN = ("kind", "base_model", "base_revision", "base_hash", "round", "update", "stage", "parent")
_HASHES = ("weights_hash", "content_hash")


def version_files(facts: Facts) -> dict[str, str]:
    """Return {file name: text}: the context, the config, lineage, evaluation, audit and card. Secrets are hidden."""
    files = {
        "context.json": visible_json(dict(facts.shown)),
        "config.yaml": hide(write_yaml(hide_secrets(dict(facts.config)))),
        "lineage.json": _json(lineage(facts)),
        "evaluation.json": _json({arm: _plain(splits) for arm, splits in facts.reports.items()}),
        "README.md": model_card(facts),
    }
    return files if facts.audit is None else {**files, "audit.json": _json(dict(facts.audit))}


def lineage(facts: Facts) -> dict[str, Any]:
    """Return where a version comes from: its run, policy and base, its tasks and code, and the libraries that made it.

    `code` has the fingerprints of environment and reward, commits, and versions of packages; `tags` are the run's own.
    """
    return {
        "model": facts.name,
        "run": facts.run_name,
        "mlflow_run_id": facts.run_id,
        **{key: facts.policy.get(key) for key in (*_ORIGIN, *_HASHES)},
        "tasks": {"source": facts.source, "fingerprint": facts.fingerprint, "splits": dict(facts.sizes)},
        "environment": facts.environment,
        "code": dict(facts.code),
        "tags": dict(sorted(facts.tags.items())),
    }


def _plain(splits: Any) -> dict[str, Any]:
    return {split: dataclasses.asdict(report) for split, report in splits.items()}


def _json(value: Any) -> str:
    """Return visible JSON without secrets; numbers that are not finite, which JSON lacks, become null."""
    return hide(visible_json(json.loads(json.dumps(value), parse_constant=lambda _: None)))


def model_card(facts: Facts) -> str:
    """Return the card: YAML between two lines of dashes, and sections in Markdown. Secrets are hidden."""
    tools = [tool["function"] for tool in facts.shown.get("tools", ())]
    address = json.dumps(f"models:/{facts.name}@champion")
    body = open_template("model_card.md.j2", _as_markdown).render(
        facts=facts,
        adapter=facts.policy.get("kind") == "adapter",
        learnt_by=learnt_by(facts.config),
        labels=_LABELS,
        tools=[f"{each['name']}: {each.get('description', '')}" for each in tools],
        code=f"""import mlflow

model = mlflow.pyfunc.load_model({address})  # or /VERSION
model.predict({{"prompt": "A prompt"}})  # adds the system prompt and the tools""",
        paragraph=lambda block: Markup(paragraph(block)),
        bullets=lambda texts: Markup(bullets(map(str, texts))),
        fenced=lambda *given: Markup(fenced(*given)),
    )
    return hide(f"---\n{front_matter(facts).strip()}\n---\n\n{body}\n")


def _as_markdown(value: Any) -> Any:
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_HUB = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")


def front_matter(facts: Facts) -> str:
    """Return YAML with the base model, the library, tags and the data sets; the results stand below it.

    A base model or data set is named if it is one of the Hub; a path on this machine says nothing to others.
    """
    adapter = facts.policy.get("kind") == "adapter"
    base, tasks = facts.base, facts.config["tasks"]
    data = ModelCardData(
        base_model=base if base and _is_of_the_hub(base) else None,
        base_model_relation=("adapter" if adapter else "finetune") if base and _is_of_the_hub(base) else None,
        library_name="peft" if adapter else "transformers",
        pipeline_tag="text-generation",
        tags=["rlft", facts.config.get("training", {}).get("algorithm", "grpo"), "reinforcement-learning"],
        datasets=list(dict.fromkeys(each["path"] for each in _sources(tasks) if _is_hub_data(each))) or None,
        model_name=_line(facts.name),
    )
    return data.to_yaml()


def _sources(tasks: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the section `tasks` of each of several environments, or the one that there is."""
    return list((tasks.get("members") or {"": tasks}).values())


def _is_hub_data(source: Mapping[str, Any]) -> bool:
    return source.get("source") == "huggingface" and _is_of_the_hub(source["path"])


def _is_of_the_hub(name: str) -> bool:
    return bool(_HUB.fullmatch(name)) and not Path(name).exists()


def _line(text: str) -> str:
    return " ".join(visible(text).split())[:200]


_LABELS = {
    "base": "base model",
    "warm_start": "warm start (SFT)",
    "trained": "this version",
    "champion": "champion before it",
    "constant": "best constant answer",
}
