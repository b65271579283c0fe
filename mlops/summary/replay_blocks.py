"""What a replay came to in blocks of text, for the terminal and for the description in MLflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mlops.summary.sections import AlarmSection
from mlops.summary.verdict import alarms_said
from rlft.blocks import Block, Bullets, Caution, Headline, Table


def replay_blocks(found: Mapping[str, Any]) -> Iterator[Block]:
    """Yield what the summary of a replay says, as JSON has it, from its headline to its notes."""
    if found["status"] != "finished":
        failed = bool(found["error"])
        command = f": {said}" if (said := found.get("command")) else ""
        yield Headline(f"The {found['kind']} of {found['source']} {'has failed' if failed else 'was interrupted'}")
        yield Caution(found["error"] or f"the same command goes on from what is in the cache{command}")
        return
    yield from _rescored(found) if found["kind"] == "rescore" else _retrained(found)
    if found["notes"]:
        yield Bullets("What this can tell:", tuple(found["notes"]))


def _rescored(found: Mapping[str, Any]) -> Iterator[Block]:
    total, pairs = found["total"], found["total"]["pairs"]
    compared = sum(pairs.values())
    yield Headline(_order(total))
    audit = found["audit"]
    if audit is None:
        yield "The new config switches the reward audit off, so nobody knows whether it would pass."
    elif audit["passed"]:
        yield "The reward audit would pass."
    else:
        yield Caution("The reward audit would not pass, so that a run with this reward would not begin:")
        yield from (Caution(each) for each in audit["findings"])
    yield (
        f"Of {compared} pairs of attempts at one task {pairs['reversed']} are the other way round, {pairs['tied']} are "
        f"equal now and {pairs['parted']} are no longer equal. In {total['new_best']} groups another attempt is the "
        f"best, and {total['flipped']} of {total['attempts']} attempts are on the other side of their group's mean. "
        f"{total['varying_after']} of {total['groups']} groups differ in reward and so teach; under the reward of the "
        f"run it is {total['varying_before']}."
    )
    if errored := total["errored_after"]:
        yield Caution(f"{errored} attempts have no score; under the reward of the run it is {total['errored_before']}.")
    yield _means_table(total)
    if gain := found["gain"]:
        sides = [f"{_interval(gain[side])} {words}" for side, words in _SIDES.items() if gain.get(side)]
        yield f"The trained model minus the one that training started from, in {gain['metric']}: {'; '.join(sides)}."


def _order(total: Mapping[str, Any]) -> str:
    """Return what became of the order of attempts. Equal ones that differ now, or the other way round, turn none."""
    changed = f"{total['reordered']} of {total['groups']} groups of attempts"
    if not total["reordered"]:
        return "All groups of attempts are in the same order under the new reward"
    if not total["pairs"]["reversed"]:
        return f"No two attempts change places under the new reward; in {changed} those that are equal are others"
    return f"{changed} are in another order under the new reward"


_SIDES = {"before": "under the reward of the run", "after": "under the new one"}


def _means_table(total: Mapping[str, Any]) -> Table:
    names = dict.fromkeys([*total["before"], *total["after"]])
    rows = tuple((name, *(_mean(total[side].get(name)) for side in _SIDES)) for name in names)
    return Table("Means over all attempts", ("", "reward of the run", "new reward"), rows)


def _mean(found: Any) -> str:
    return "" if found is None else f"{found[0]:.3f}"


def _retrained(found: Mapping[str, Any]) -> Iterator[Block]:
    source, metric, difference = found["source"], found["metric"], found["difference"]
    if difference is None:
        yield Headline(f"Trained again; {source} has no evaluation to compare it with")
    else:
        if difference["low"] > 0:
            verdict = "the model that was trained again is better"
        elif difference["high"] < 0:
            verdict = f"the model of {source} is better"
        else:
            verdict = "no difference is shown"
        numbers = f"{difference['after']:.3f} against {difference['before']:.3f} of {source} on test"
        yield Headline(f"{metric} {numbers}: {_interval(difference)}, {verdict}")
    alarms = [AlarmSection(**each) for each in found.get("alarms", ())]  # a replay of before has none
    yield from (Caution(each) for each in alarms_said(alarms))
    if found["stopped"]:
        yield Caution(f"Training ended early: {found['stopped']}")
    changes = (f"{key}: {before} became {after}" for key, (before, after) in found["changes"].items())
    yield Bullets("What was changed:" if found["changes"] else "No setting was changed.", tuple(changes))
    rows = tuple(_row(each) for each in found["off_policy"])
    columns = ("round", "attempts of", "effective share", "mean weight", "capped", "log-probabilities differ by")
    yield Table("How far from the policy its attempts are", columns, rows)
    if any(each["on_policy"] for each in found["off_policy"]):
        yield (
            "A round of its own attempts is trained on as in a run, and says nothing on how well attempts of another "
            "policy can be used."
        )
    first, best = found["from_round"], found["best_round"]
    kept = f"that after round {best - 1}" if best > first else f"the one that round {first} began with"
    done = f"{first} to {first + found['rounds'] - 1} (the first is 0)"
    yield f"Trained again on rounds {done}; the best policy is {kept}."


def _row(each: Mapping[str, Any]) -> tuple[str, ...]:
    share, apart = each["effective_sample_ratio"], each["logp_difference"]
    mean, capped = each.get("mean_weight"), each.get("capped_ratio")  # a replay of before has none
    if each["on_policy"]:  # 100 % by what it is, which reads as if it had been found
        whose = "its own, a round before (lag)" if each.get("age") else "its own (on-policy)"
        return str(each["round"]), whose, "", "", "", "" if apart is None else f"{apart:.4f}"
    return (
        str(each["round"]),
        "another policy",
        "" if share is None else f"{share:.1%}",
        "" if mean is None else f"{mean:.3g}",
        "" if capped is None else f"{capped:.0%}",
        "" if apart is None else f"{apart:.4f}",
    )


def _interval(found: Mapping[str, Any]) -> str:
    return f"{found['mean']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]"
