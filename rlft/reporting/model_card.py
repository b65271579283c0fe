"""The texts beside a policy, its model card among them, as the Hugging Face Hub reads it.

Its format is that of huggingface.co/docs/hub/model-cards. What comes from models and users is escaped.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from rlft.blocks import Table, bullets, fenced, paragraph, plain, table_text
from rlft.config.yaml_text import write_yaml
from rlft.reporting.version_facts import Facts
from rlft.texts.characters import visible, visible_json
from rlft.texts.secrets import hide, hide_secrets
from rlft.training.algorithms import learnt_by
from rlft.types import EvaluationReport

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
    sections = [
        opening(facts),
        results(facts),
        data(facts),
        context(facts),
        limits(facts),
        licence(facts),
        loading(facts),
    ]
    body = "\n\n".join(sections)
    return hide(f"---\n{front_matter(facts).strip()}\n---\n\n{body}\n")


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
        tags=["rlft", facts.config.get("training", {}).get("algorithm", "grpo"), "reinforcement-learning"],
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


_LABELS = {
    "base": "base model",
    "warm_start": "warm start (SFT)",
    "trained": "this version",
    "champion": "champion before it",
    "constant": "best constant answer",
}


def opening(facts: Facts) -> str:
    """Return the title, and what the model is."""
    made = "A model made from nothing" if facts.base is None else f"{plain(facts.base)}"
    how = "with an adapter (LoRA)" if facts.policy.get("kind") == "adapter" else "in all its weights"
    rounds = facts.policy.get("round") or 0
    kind = "environments" if facts.config.get("environments") else "environment"
    return (
        f"# {plain(facts.name)}\n\n"
        f"{made}, trained {how} by {learnt_by(facts.config)} on the tasks of the {kind} "
        f"{plain(facts.environment)} for {rounds} rounds, with rlft. The run is {plain(facts.run_name)}; its weights "
        f"have the sha256 {plain(str(facts.policy.get('weights_hash', '')))}."
    )


def results(facts: Facts) -> str:
    """Return what came of the run: sentences, tables, every arm on every split with its interval, and the decision."""
    told = [paragraph(block) for block in facts.results]
    arms = [table_text(intervals_table(facts.reports, facts.config["evaluation"]["metric"]))] if facts.reports else []
    simpler = facts.simpler or ("No control was scored, so that this is not known.",)
    decided = [f"## Decision on promotion\n\n{bullets(facts.reasons)}"] if facts.reasons else []
    parts = ["## Results", *told, *arms, f"### Would something simpler do?\n\n{bullets(simpler)}", *decided]
    return "\n\n".join(parts)


def intervals_table(reports: Mapping[str, Mapping[str, EvaluationReport]], metric: str) -> Table:
    """Return the metric of each arm on each split, with its 95 % interval over groups of tasks."""
    rows = [
        (
            _LABELS.get(arm, arm),
            split,
            f"{found.mean:.3f}",
            f"{found.low:.3f} to {found.high:.3f}",
            str(found.count),
            str(report.errored),
        )
        for arm, splits in reports.items()
        for split, report in splits.items()
        if (found := report.metrics.get(metric)) is not None
    ]
    return Table(
        f"{metric} with 95 % intervals", ("model", "split", "mean", "interval", "tasks", "errors"), tuple(rows)
    )


def data(facts: Facts) -> str:
    """Return where the tasks come from, and what the reward pays."""
    sizes = ", ".join(f"{count} {name}" for name, count in facts.sizes.items())
    if facts.audit is None:
        audited = ["The reward was not attacked with wrong answers before training."]
    else:
        found = [str(each) for each in facts.audit.get("findings", ())]
        passed = "passed" if facts.audit.get("passed") else "failed"
        count = facts.audit.get("num_tasks", 0)
        audited = [f"Wrong answers to {count} tasks attacked the reward, which {passed}.", *found]
    return (
        f"## Data\n\nThe tasks come from {plain(facts.source)}: {plain(sizes)}. Their fingerprint is "
        f"{plain(facts.fingerprint)}.\n\n## Reward\n\n{bullets([*facts.reward, *audited])}"
    )


def context(facts: Facts) -> str:
    """Return what stands before a task's own prompt."""
    shown = facts.shown
    parts = ["## What it is shown before a task"]
    if prompt := shown.get("system_prompt"):
        parts += ["The system prompt:", fenced(prompt)]
    elif not shown.get("depends_on_task"):
        parts.append("There is no system prompt.")
    tools = [tool["function"] for tool in shown.get("tools", ())]
    if tools:
        where = "by the chat template" if shown.get("tools_in") == "chat_template" else "nowhere: there is no template"
        parts += [f"Its tools, described {where}:", bullets(f"{t['name']}: {t.get('description', '')}" for t in tools)]
    return "\n\n".join([*parts, *([plain(shown["note"])] if shown.get("note") else [])])


def limits(facts: Facts) -> str:
    """Return what the results do not show."""
    said = [
        "The results hold for tasks like those of the data above. Nothing else was measured, neither safety nor bias.",
        "They are those of one training run: they judge this model, not the settings that made it.",
        *facts.caveats,
    ]
    if facts.shown.get("tools"):
        said.append("It writes calls of tools as text; whoever serves it runs them.")
    return f"## Limits\n\n{bullets(said)}"


def licence(facts: Facts) -> str:
    """Return the licence of the base model, or that it is not known."""
    if facts.base is None:
        said = "It has no base model. Its licence is for whoever trained it to choose."
    elif facts.licence is None:
        said = f"The licence of its base model ({plain(facts.base)}) was not found beside the model: look it up there."
    else:
        named = (
            f"{plain(facts.licence.name)} ({plain(facts.licence.id)})"
            if facts.licence.name
            else plain(facts.licence.id)
        )
        link = f" Its text: {plain(facts.licence.link)}." if facts.licence.link else ""
        said = f"Its base model {plain(facts.base)} has the licence {named}, which binds this model, too.{link}"
    return f"## Licence\n\n{said}"


def loading(facts: Facts) -> str:
    """Return how to load and ask it."""
    name = facts.name.replace("\\", "\\\\").replace('"', '\\"')
    code = "\n".join(
        [
            "import mlflow",
            "",
            f'model = mlflow.pyfunc.load_model("models:/{name}@champion")  # or /VERSION',
            'model.predict({"prompt": "A prompt"})  # adds the system prompt and the tools',
        ]
    )
    base = (
        " The adapter needs its base model, from the Hub or from the folder in BASE_MODEL." if _adapter(facts) else ""
    )
    return (
        f"## How to load it\n\n{fenced(code, 'python')}\n\n"
        f"`model/` and `tokenizer/` beside this card are what transformers and peft load.{base} `context.json` has the "
        "system prompt and the tools, `evaluation.json` all results, `config.yaml` the settings and `lineage.json` the "
        "origin."
    )


def _adapter(facts: Facts) -> bool:
    return facts.policy.get("kind") == "adapter"
