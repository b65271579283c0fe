"""What a rescoring or a retraining of a run came to: what its file holds, and that in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from mlops.summary.file import CommandSummary
from mlops.summary.summary import AlarmSection
from mlops.summary.verdict import alarms_said
from rlft.texts.blocks import Block, Bullets, Caution, Headline, Table
from rlft.types.formats import REPLAY


@dataclasses.dataclass
class ReplaySummary(CommandSummary):
    """What all replays have: the run that they are made from, and what must be known to read them.

    `kind` is `rescore` or `retrain`, `source` the name of the run, with its ids in ZenML and MLflow. `notes` are
    sentences: what it can tell, and what it cannot.
    """

    kind: str
    name: str
    source: str
    source_run_id: str
    source_mlflow_run_id: str | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
    format: int = dataclasses.field(default=REPLAY.version, kw_only=True)


@dataclasses.dataclass
class RescoreSummary(ReplaySummary):
    """What stored attempts are worth under another reward.

    `weights` are those of the new reward's parts. `rounds` has by number what changes in each round
    (`rlft.rewards.rescored.RescoreReport`), `total` the sums. `audit` is the report of the reward audit under the new
    reward, `audit_before` that of the run, `None` where there is none. `evaluations` has by arm (`base`, `warm_start`,
    `trained`) and split the means of the evaluations under the reward of the run (`before`) and the new one (`after`),
    and `gain` how much better the trained model is than the one that training started from, by both. `left_out` counts
    attempts at tasks that the new config does not have.
    """

    weights: dict[str, float] = dataclasses.field(default_factory=dict)
    rounds: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    total: dict[str, Any] | None = None
    audit: dict[str, Any] | None = None
    audit_before: dict[str, Any] | None = None
    evaluations: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    gain: dict[str, Any] = dataclasses.field(default_factory=dict)
    left_out: int = 0


@dataclasses.dataclass
class RetrainSummary(ReplaySummary):
    """What other training makes of the stored attempts of a run.

    `changes` are the settings that differ, as {setting: [of the run, of this training]}. Training began with the policy
    before `from_round`, and did `rounds` rounds; `best_round` is the number of rounds, those of the run before
    `from_round` included, after which the policy in `final` was best in validation. `correction` is how attempts of
    another policy were weighted. `off_policy` says of each round whether the policy had sampled its attempts itself
    (`on_policy`; an `age` of 1 is that of a round before, as a lag has it),
    how many of its own they weigh as much as (`effective_sample_ratio`), their mean weight before the bound
    (`mean_weight`, 1 where it would sample them as often) and the share that the bound cuts (`capped_ratio`).
    `alarms` are what monitors have seen (`mlops.summary.summary.AlarmSection`).
    `validation` has the means of both by the number of rounds. `final` and `source_final` are the means of the best
    policy of each on the evaluated splits, as in the summary of a run, and `difference` is theirs on `test`, this minus
    the run's; `None` if there is nothing to compare.
    """

    metric: str = "accuracy"
    changes: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    from_round: int = 0
    rounds: int = 0
    best_round: int | None = None
    stopped: str = ""
    correction: str | None = None
    off_policy: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    alarms: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    ledger: dict[str, int] = dataclasses.field(default_factory=dict)
    validation: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    final: dict[str, float] = dataclasses.field(default_factory=dict)
    source_final: dict[str, float] = dataclasses.field(default_factory=dict)
    difference: dict[str, Any] | None = None


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
        f"equal now and {pairs['parted']} are no longer equal. "
        f"{total['varying_after']} of {total['groups']} groups differ in reward and so teach; under the reward of the "
        f"run it is {total['varying_before']}."
    )
    if errored := total["errored_after"]:
        yield Caution(f"{errored} attempts have no score; under the reward of the run it is {total['errored_before']}.")
    names = dict.fromkeys([*total["before"], *total["after"]])
    means = {side: {name: f"{mean[0]:.3f}" for name, mean in total[side].items() if mean} for side in _SIDES}
    rows = tuple((name, *(means[side].get(name, "") for side in _SIDES)) for name in names)
    yield Table("Means over all attempts", ("", "reward of the run", "new reward"), rows)
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
    alarms = [AlarmSection(**each) for each in found["alarms"]]
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
    mean, capped = each["mean_weight"], each["capped_ratio"]
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
