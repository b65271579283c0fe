"""The sections of a model card, in Markdown. What comes from models and users is escaped."""

from __future__ import annotations

from collections.abc import Mapping

from rlft.blocks import Table
from rlft.card.facts import Facts
from rlft.markdown import bullets, fenced, paragraph, plain, table_text
from rlft.types import EvaluationReport

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
        f"{made}, trained {how} by reinforcement learning (GRPO) on the tasks of the {kind} "
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
