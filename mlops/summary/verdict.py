"""What came of a run, in sentences and one table: written once for the terminal, MLflow and whoever else shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from mlops.registry.names import failed_of_all, failing
from mlops.summary.summary import NOT_REGISTERED, AlarmSection, Difference, Metrics, SeveralAttempts, Status, Summary
from rlft.evaluation.arms import ARMS, PromptArm
from rlft.texts.blocks import Block, Bullets, Caution, Headline, Table, ends, level
from rlft.texts.blocks import change as signed

_IMITATED = {"bare": "bare answers", "demonstration": "demonstrations", "file": "demonstrations"}


def label_of(summary: Summary, name: str) -> str:
    """Return what a control is called for a person; another model is called by its name."""
    named = summary.control_model if name == "model" else ""
    label = f"{named} with examples in its prompt" if named else ARMS[name].label if name in ARMS else name
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
        than = "it does better than the trained model" if better else "the trained model is not shown to be better"
        found.append(f"{text}: {than}.")
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
    """Return what a control costs beside the rounds; it never costs more."""
    if name in ARMS and issubclass(ARMS[name], PromptArm):
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


OUTCOMES: Mapping[Status, str] = {
    "running": "The run has not ended",
    "improved": "The trained model is better than what it started from",
    "not_improved": "The trained model is not measurably better than what it started from",
    "too_hard": "Not trained: the model solves none of these tasks, so nothing can be learnt",
    "already_solved": "Not trained: the model solves these tasks already",
    "failed": "The run failed",
    "interrupted": "The run was interrupted",
}
UNCHANGED = "In validation no round did better than what training started from, which is what was kept and tested"
WORSE = "The trained model is measurably worse than what it started from"
_UNKNOWN = "whether something simpler does as well is unknown"


def headline(summary: Summary) -> str:
    """Return the outcome in one sentence, with the gain, and that no control does as well where that was shown."""
    said, change = OUTCOMES[summary.status], summary.difference
    if change is None or summary.status not in ("improved", "not_improved"):
        return f"{said}."
    if change.is_below_zero:
        said = WORSE
    elif summary.best_round == 0 and change.before == change.after:
        said = UNCHANGED
    return f"{said}: {in_words(change)}{_controls(summary)}."


def in_words(change: Difference) -> str:
    """Return before, after and gain with its interval: accuracy in per cent and points, the reward in its own unit."""
    metric = change.metric
    return (
        f"{metric} {level(change.before, metric)} -> {level(change.after, metric)} on {change.tasks} test tasks "
        f"({signed(change.mean, metric)}, 95 % interval {ends(change.low, change.high, metric)})"
    )


def qualifications(change: Difference) -> list[str]:
    """Return what must be known of a difference beside its numbers: attempts without a score, and an unknown range."""
    said = []
    if change.errors and change.ci_low_errors is not None:
        said.append(
            f"In the interval {change.errors} rollouts without a score count against the trained model at its lower "
            "end, and for it at its upper one; without them it is "
            f"{ends(change.ci_low, change.ci_high, change.metric)}."
        )
    if change.without_score:
        said.append(f"{len(change.without_score)} test tasks have no score for either and are left out.")
    if change.declared is False:
        said.append(
            "The range of this score is not known, so rare large losses that did not occur may be missing in the "
            "interval."
        )
    return said


def nothing_is_full(summary: Summary) -> list[str]:
    """Return what an accuracy of 0 means where attempts earn something: it counts those whose reward is full."""
    change, reward = summary.difference, summary.final.get("test/reward")
    if change is None or change.metric != "accuracy" or change.after > 0 or reward is None or reward <= 0:
        return []
    mean = level(reward, "reward")
    return [
        f"Accuracy counts attempts whose reward is full, and none was, although the mean reward is {mean}: if right "
        " answers earn less, say from which total on an attempt counts as solved (`reward.full`)."
    ]


def _controls(summary: Summary) -> str:
    """Return that no control does as well, or that this is unknown; nothing where a caution says which one does."""
    scored = {name: change for name, change in summary.difference_controls.items() if change is not None}
    if any(not change.is_above_zero for change in scored.values()):
        return ""
    reached = {name: f"{label_of(summary, name)} ({level(each.before, each.metric)})" for name, each in scored.items()}
    others = {name: change.before for name, change in scored.items() if name != "constant"}
    if others:
        best = max(others, key=others.__getitem__)
        return f"; no control does as well (the best of {len(scored)} is {reached[best]})"
    if scored:
        return f"; no control but the {reached['constant']} was run, so {_UNKNOWN}"
    return f"; no control was run, so {_UNKNOWN}"


EFFECTS = {
    "widened": "in {n} attempts the trained model solves more than the start does in {further}",
    "ahead": "the trained model solves more in {n} attempts, but the start may solve as much in {further}",
    "sharpened": "training made the first attempt better, and is not seen to solve more in {n}",
    "lost": "in {n} attempts the trained model solves less than the start does",
    "open": "neither change is more than chance",
}
DISAGREE = (
    "`test` shows whether training made the model better than its start; `gate`, on other tasks and with a wider "
    "interval the more models it may judge, whether it is better than each rival: one may show what the other does not"
)
ROWS = (
    ("base", "base model"),
    ("warm_start", "warm start (SFT)"),
    ("controls", "control"),
    ("final", "trained"),
    ("champion", "champion before this run"),
)


def warnings_before(summary: Summary) -> list[str]:
    """Return what must be read before the verdict.

    Monitors have warned, answers have collapsed, or something simpler would do.
    """
    return [*alarms_said(summary.alarms), *_collapsed(summary), *unbeaten_controls(summary)]


def explanation(summary: Summary) -> list[str]:
    """Return the sentences that stand under the headline: what went wrong, and what must be known of the difference."""
    said = [summary.error] if summary.error else []
    if summary.baseline and summary.status in ("too_hard", "already_solved"):
        said.append(summary.baseline.advice)
    if summary.difference:
        said += [*nothing_is_full(summary), *qualifications(summary.difference)]
    return said + [f"Likely cause: {each}" for each in summary.diagnosis[:1]]


def comparisons(summary: Summary) -> list[str]:
    """Return the sentences on the controls, on several attempts, and on texts that training cost nothing on."""
    said = []
    if summary.difference:
        said += [
            _against(label_of(summary, name), change, cost_note(summary, name))
            for name, change in summary.difference_controls.items()
            if change is not None
        ]
        said += weak_controls(summary)
        said += [f"No control {name}: {reason}." for name, reason in summary.controls_left_out.items()]
    said += [_several_attempts(summary.pass_at_k)] if summary.pass_at_k else []
    return said if _has_cost(summary) or not summary.forgetting else [*said, *summary.forgetting_sentences]


def caveats(summary: Summary) -> list[str]:
    """Return which evaluation tasks are not new to the model, and what training cost elsewhere, if it did."""
    said = [each.sentence for each in summary.contamination.values() if each.exact + each.overlapping]
    return [*said, *summary.forgetting_sentences] if _has_cost(summary) else said


def _has_cost(summary: Summary) -> bool:
    return any(each.verdict == "cost" for each in summary.forgetting.values())


def registration(summary: Summary) -> list[str]:
    """Return what happened in the registry, and why, what failed first; nothing of a run that came to nothing.

    It is read later, too, in MLflow and on the page, when people may have decided otherwise: so it says when that was.
    """
    promotion = summary.promotion
    if not promotion.version:
        return []
    registered = f"Registry when the run ended: {promotion.name} version {promotion.version}, alias {promotion.alias}"
    if not summary.difference:
        return [registered]
    if failed := failing(promotion.reasons):
        registered = f"Not promoted: {failed_of_all(promotion.reasons)}. {registered}"
    rivals = [reason for reason in failed if "on gate of trained minus" in reason]
    differ = [DISAGREE] if (rivals if summary.status == "improved" else not failed) else []
    return [registered, *differ, *failed, *(reason for reason in promotion.reasons if reason not in failed)]


def shortcomings(summary: Summary) -> list[str]:
    """Return what was lost on the way: a registration, or rollouts that could not be trained on."""
    promotion, ledger = summary.promotion, summary.ledger
    said = list(promotion.reasons) if summary.exit_code == NOT_REGISTERED else []
    if ledger.errored:
        said.append(f"{ledger.errored} of {ledger.sampled} rollouts errored and were left out")
    if summary.rounds and not ledger.trained:
        said.append(f"none of {ledger.sampled} rollouts was trained on")
    return said


def effort(summary: Summary) -> str:
    """Return how many rounds a run had, how long it took, and why it had no more."""
    rounds = "1 round" if summary.rounds == 1 else f"{summary.rounds} rounds"
    why = summary.stopped or ""
    if why.startswith("monitor "):
        why = why.partition(":")[0]  # what it has seen stands first of all
    early = f"; training ended early ({why})" if why else ""
    return f"{rounds}, {summary.seconds.total:.0f} s{early}"


def judges_effort(summary: Summary) -> str:
    """Return in a sentence what judges were asked, and what that took; empty if none was asked."""
    costs = summary.judges.values()
    if not costs:
        return ""
    calls, cached, failed = (sum(getattr(each, name) for each in costs) for name in ("calls", "cached", "failed"))
    read, written = (sum(getattr(each, name) for each in costs) for name in ("prompt_tokens", "completion_tokens"))
    untold = sum(each.untold for each in costs)
    not_told = f"; the tokens of {untold:,} answers are not known" if untold else ""
    lost = f", {failed:,} of them without an answer" if failed else ""
    return (
        f"judges: {calls:,} calls{lost}, and {cached:,} votes that were known; {read:,} tokens read and {written:,} "
        f"written{not_told}"
    )


def arms_table(summary: Summary, metric: str) -> Table:
    """Return the metric of every arm on each split that was measured."""
    arms: dict[str, Metrics] = {}
    for key, label in ROWS:
        if key == "controls":
            arms |= {label_of(summary, name): metrics for name, metrics in summary.controls.items()}
        else:
            arms[label] = getattr(summary, key)
    splits = {metric: "test", f"gate/{metric}": "gate", f"off_distribution/{metric}": "off distribution"}
    measured = [name for name in splits if any(name in arm for arm in arms.values())]
    rows = tuple(
        (label, *(level(arm[name], metric) if name in arm else "" for name in measured))
        for label, arm in arms.items()
        if any(name in arm for name in measured)
    )
    return Table(metric, ("", *(splits[name] for name in measured)), rows)


def parts_table(differences: Mapping[str, Difference | None]) -> Table:
    """Return the reward's parts and the environment's metrics before and after training."""
    rows = []
    for name, change in differences.items():
        plain = name.removeprefix("rewards/")
        if change is None:
            rows.append((plain, "-", "-", "applied to no task of both", "0"))
            continue
        interval = f"{change.mean:+.3f} ({change.low:+.3f} to {change.high:+.3f})"
        rows.append((plain, f"{change.before:.3f}", f"{change.after:.3f}", interval, str(change.tasks)))
    columns = ("on test", "before", "after", "change (95 % interval)", "tasks")
    return Table("parts and metrics, each in its own unit", columns, tuple(rows))


def alarms_said(alarms: Sequence[AlarmSection]) -> list[str]:
    """Return what the monitors have warned of, those first that were to stop the run; notes stand in the summary."""
    said = sorted((each for each in alarms if each.action != "note"), key=lambda each: each.action != "stop")
    return [
        f"Monitor {each.monitor}, after {'1 round' if each.rounds == 1 else f'{each.rounds} rounds'}"
        f"{', which ends training' if each.action == 'stop' else ''}: {each.what} {each.remedy} "
        f"More: docs/guide/monitors.md#{each.monitor}"
        for each in said
    ]


def _collapsed(summary: Summary) -> list[str]:
    """Return that the answers have collapsed to a few, and what to do if that is wanted; nothing if they have not."""
    if summary.collapsed is None:
        return []
    wanted = "If few answers are right for your tasks, look at them (`rlft show RUN final`) before you use the model."
    return [f"The trained model says little: {summary.collapsed}. {wanted}"]


def _against(label: str, change: Difference, note: str) -> str:
    """Return the trained model minus a control in one line, with a note on what the control took."""
    interval = f"{signed(change.mean, change.metric)}, 95 % interval {ends(change.low, change.high, change.metric)}"
    return f"Trained minus {label}: {interval}" + (f" ({note})" if note else "")


def _several_attempts(curves: SeveralAttempts) -> str:
    """Return in one sentence what both models solve in one and in n attempts, and what training did."""
    from rlft.evaluation.statistics import FURTHER  # imports scipy, which commands that list runs do without

    n, change = len(curves.start), curves.difference_at_n
    gain = f"{signed(change.mean, 'pass_at_k')}, 95 % interval {ends(change.ci_low, change.ci_high, 'pass_at_k')}"
    once, often = (
        f"{level(curves.start[place], 'pass_at_k')} -> {level(curves.trained[place], 'pass_at_k')}" for place in (0, -1)
    )
    text = (
        f"One attempt at {curves.tasks} test tasks, sampled as in training, solves {once}, and at least one of {n} "
        f"does {often} ({gain}): {EFFECTS[curves.effect].format(n=n, further=FURTHER * n)}"
    )
    return f"{text}; {curves.errors} attempts have no score and count as unsolved" if curves.errors else text


def blocks(summary: Summary) -> Iterator[Block]:
    """Yield the results of a run, the decision and its reasons, what was lost on the way, and what it took."""
    yield from results(summary)
    registered, *reasons = registration(summary) or [""]
    if registered:
        yield Bullets(registered, tuple(reasons))
    yield from _cautions(shortcomings(summary))
    yield effort(summary)
    if asked := judges_effort(summary):
        yield asked


def results(summary: Summary) -> Iterator[Block]:
    """Yield the verdict, the comparisons with other models, and what stands beside them."""
    yield from lead(summary)
    if summary.difference:
        yield arms_table(summary, summary.difference.metric)
    yield from comparisons(summary)
    yield from _cautions(caveats(summary))
    if len(summary.differences) > 1:  # a single part is the reward itself
        yield parts_table(summary.differences)


def lead(summary: Summary) -> Iterator[Block]:
    """Yield what must be read before the verdict, the verdict as a headline, and what explains it."""
    yield from _cautions(warnings_before(summary))
    yield Headline(headline(summary))
    yield from explanation(summary)


def _cautions(sentences: Iterable[str]) -> Iterator[Caution]:
    return map(Caution, sentences)
