"""What came of a run, in sentences and one table: written once for the terminal, MLflow and whoever else shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlops.registry.changes import failed_of_all, failing
from mlops.summary.controls import cost_note, label_of, unbeaten_controls, weak_controls
from mlops.summary.headline import nothing_is_full, qualifications
from mlops.summary.sections import AlarmSection, Difference, Metrics, SeveralAttempts
from mlops.summary.summary import NOT_REGISTERED, Summary
from rlft import blocks
from rlft.blocks import Table, ends, level

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
ARMS = (
    ("base", "base model"),
    ("warm_start", "warm start (SFT)"),
    ("controls", "control"),
    ("final", "trained with GRPO"),
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
        said.append(f"none of {ledger.sampled} rollouts could be trained on, no weight changed")
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
    known = [each.money for each in costs if each.money is not None]
    money = f", for {sum(known):.4g} at the prices of the config" if len(known) == len(costs) else ""
    not_told = f"; the tokens of {untold:,} answers are not known" if untold else ""
    lost = f", {failed:,} of them without an answer" if failed else ""
    return (
        f"judges: {calls:,} calls{lost}, and {cached:,} votes that were known; {read:,} tokens read and {written:,} "
        f"written{money}{not_told}"
    )


def arms_table(summary: Summary, metric: str) -> Table:
    """Return the metric of every arm on each split that was measured."""
    arms: dict[str, Metrics] = {}
    for key, label in ARMS:
        if key == "controls":
            controls = summary.controls or {"sft": summary.sft_control}  # of an older version
            arms |= {label_of(summary, name): metrics for name, metrics in controls.items()}
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
    interval = (
        f"{blocks.change(change.mean, change.metric)}, 95 % interval {ends(change.low, change.high, change.metric)}"
    )
    return f"GRPO minus {label}: {interval}" + (f" ({note})" if note else "")


def _several_attempts(curves: SeveralAttempts) -> str:
    """Return in one sentence what both models solve in one and in n attempts, and what training did."""
    from rlft.pass_at_k import FURTHER  # imports scipy, which commands that list runs do without

    n, change = len(curves.start), curves.difference_at_n
    gain = (
        f"{blocks.change(change.mean, 'pass_at_k')}, 95 % interval {ends(change.ci_low, change.ci_high, 'pass_at_k')}"
    )
    once, often = (
        f"{level(curves.start[place], 'pass_at_k')} -> {level(curves.trained[place], 'pass_at_k')}" for place in (0, -1)
    )
    text = (
        f"One attempt at {curves.tasks} test tasks, sampled as in training, solves {once}, and at least one of {n} "
        f"does {often} ({gain}): {EFFECTS[curves.effect].format(n=n, further=FURTHER * n)}"
    )
    return f"{text}; {curves.errors} attempts have no score and count as unsolved" if curves.errors else text
