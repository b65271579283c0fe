"""What the controls of a run are called, and which of them the trained policy is not shown to beat."""

from __future__ import annotations

from mlops.summary.summary import Summary
from rlft.blocks import level

LABELS = {
    "sft": "SFT on your gold answers",
    "rejection_sampling": "Rejection sampling",
    "few_shot": "base model with examples in its prompt",
    "model": "other model with examples in its prompt",
    "constant": "best constant answer",
}
_IMITATED = {"bare": "bare answers", "demonstration": "demonstrations", "file": "demonstrations"}


def label_of(summary: Summary, name: str) -> str:
    """Return what a control is called for a person; another model is called by its name."""
    named = summary.control_model if name == "model" else ""
    label = f"{named} with examples in its prompt" if named else LABELS.get(name, name)
    cost = summary.control_costs.get(name)
    return label.replace("gold answers", _IMITATED.get(cost.answers, "gold answers")) if cost else label


def unbeaten_controls(summary: Summary) -> list[str]:
    """Return a sentence for each control that does better than the trained policy, or that it is not shown to beat."""
    found = []
    for name, change in summary.difference_controls.items():
        if change is None or change.is_above_zero:
            continue
        reached = f"{'a reward of ' if change.metric == 'reward' else ''}{level(change.before, change.metric)}"
        reached += " of the attempts that have a score" if change.errors and change.metric == "accuracy" else ""
        if name == "constant":
            than = "is worse than that" if change.is_below_zero else "is not shown to be better"
            found.append(f"Saying {_constant(summary)} reaches {reached}, and the trained model {than}.")
            continue
        text = f"{_named(name, summary)} reaches {reached}{_cost(name, summary)}"
        better = change.is_below_zero
        found.append(f"{text}: it does better than GRPO." if better else f"{text}, and GRPO is not shown to be better.")
    return found


def _constant(summary: Summary) -> str:
    answers = {f"every task of {name}": text for name, text in summary.constant_answers.items()}
    answers = answers or {"every task": summary.constant_answer or ""}
    return " and ".join(f"{repr(text[:40]) if text else 'nothing'} to {tasks}" for tasks, text in answers.items())


def _named(name: str, summary: Summary) -> str:
    """Return what a control is called at the start of a sentence, with the number of answers that SFT imitates."""
    label, cost = label_of(summary, name), summary.control_costs.get(name)
    label = label if name == "model" else label[0].upper() + label[1:]
    return label.replace("on your", f"on your {cost.demonstrations:,}") if cost else label


def weak_controls(summary: Summary) -> list[str]:
    """Return a sentence if the SFT control had bare answers alone to imitate, and what would make it stronger."""
    cost = summary.control_costs.get("sft")
    if cost is None or cost.answers != "bare" or cost.answer_tokens is None or cost.attempt_tokens is None:
        return []
    return [
        f"{_named('sft', summary)} is a weak control: they have {cost.answer_tokens:.0f} tokens in the mean, and the "
        f"model's own attempts {cost.attempt_tokens:.0f}, so it learns to leave out what comes before an answer. "
        "Worked solutions make a stronger one (`warm_start.path`, or `demonstration` of the environment)."
    ]


def _cost(name: str, summary: Summary) -> str:
    """Return what a control costs beside GRPO; it never costs more."""
    if name in ("few_shot", "model"):
        return " without training"
    cost = summary.control_costs.get(name)
    if cost is None or not cost.budget or cost.flops is None:
        return ", at no more cost"
    return f", for {100 * cost.flops / cost.budget:.0f} % of the rounds' computation"


def cost_note(summary: Summary, name: str) -> str:
    """Return in words what a model behind an address took, whose FLOPs nobody knows; empty for other controls."""
    cost = summary.control_costs.get(name)
    if cost is None or cost.flops is not None:
        return ""
    if cost.prompt_tokens is None and cost.completion_tokens is None:
        return "its FLOPs are not known, and its endpoint reports no tokens"
    read, wrote = cost.prompt_tokens or 0, cost.completion_tokens or 0
    return f"its FLOPs are not known; its endpoint reports {read:,} tokens read and {wrote:,} written for its prompt"
