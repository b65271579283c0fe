"""`rlft diagnose`: why the reward of a run does not rise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cli.guard import guarded
from cli.options import AnyRun, ResultAsJson, UsedStack, Verbose
from mlops.home.folder import find_home
from mlops.summary.verdict import in_words
from rlft.reporting.terminal import console, styled

if TYPE_CHECKING:
    from mlops.summary.summary import Difference
    from rlft.evaluation.diagnosis.history import Finding, History


def diagnose(
    run: AnyRun,
    as_json: ResultAsJson = False,
    stack: UsedStack = None,
    verbose: Verbose = False,
) -> None:
    """Say why the reward of a run does not rise, the likeliest cause first, with the settings to change.

    The curves of its rounds are checked for the causes that docs/guide/diagnosis.md explains. Of a run whose validation
    has risen it is said what ended its rise, if anything did.
    """
    with guarded(verbose, None):
        home = find_home()
        from mlops.runs.results import open_run, stored_change, stored_history
        from rlft.evaluation.diagnosis.monitors import diagnose as find

        found = open_run(home, run, stack)
        history, change = stored_history(found), stored_change(found)
        history = replace(history, improved=change is not None and change.is_above_zero)
        findings = find(history)
        if as_json:
            found = list(map(_as_json, findings))
            risen = {"risen": history.has_risen(), "test": _test_as_json(change)}
            console.write_json({**risen, "rounds": len(history.rounds), "findings": found})
            return
        for sentence in _heading(history, change, found=bool(findings)):
            console.print(sentence)
        for number, each in enumerate(findings, start=1):
            console.print(styled(f"{number}. {each.cause}", "bold"))
            for sentence in (each.what, each.remedy):
                console.print(f"   {sentence}")
            console.print(f"   More: {each.link}")


def _as_json(found: Finding) -> dict[str, str]:
    said = {"cause": found.cause, "what": found.what, "remedy": found.remedy}
    return {**said, "guide": found.link}


def _test_as_json(change: Difference | None) -> dict[str, Any] | None:
    if change is None:
        return None
    return {**change.model_dump(mode="json"), "beyond_chance": change.is_above_zero or change.is_below_zero}


def _heading(history: History, change: Difference | None, *, found: bool) -> Iterator[str]:
    """Yield whether the run has risen, and what the test split says; and if nothing was `found`, what that means."""
    risen = history.has_risen()
    if history.validation_has_risen():
        yield "Validation is measurably better than before training."
    if change is not None:
        yield _on_test(change)
    if risen and not history.validation_has_risen():
        yield "No validation shows it: its tasks are too few to tell such a gain from chance."
    if found:
        return
    if not risen:
        yield _nothing_found(len(history.rounds), change)
    elif change is None or change.is_above_zero:
        yield "There is nothing to explain."


def _on_test(change: Difference) -> str:
    """Return what the test split says of the trained model, and how far it resolves."""
    if change.is_above_zero or change.is_below_zero:
        kind = "better" if change.is_above_zero else "worse"
        return f"The trained model is measurably {kind} on the test split: {in_words(change)}."
    said = f"The test split does not tell the trained model from what it started from: {in_words(change)}."
    from rlft.evaluation.power import POWER, smallest_gain

    least = smallest_gain(change.groups or change.tasks) if change.metric == "accuracy" else None
    if least is None:
        return f"{said} Take more test tasks (tasks.splits) to see a smaller change."
    return (
        f"{said} With {change.tasks} tasks a true change of {100 * least:.0f} points is shown in {POWER:.0%} of runs: "
        "take more test tasks (tasks.splits) to see a smaller one."
    )


def _nothing_found(rounds: int, change: Difference | None) -> str:
    """Return what was looked for, and what to do; more rounds help only a run that has not become worse."""
    from rlft.evaluation.diagnosis.monitors import AT_THE_END

    trained = "1 round" if rounds == 1 else f"{rounds} rounds"
    read = "Read attempts with the highest and the lowest reward (`rlft show`)"
    ways = "lower training.learning_rate" if change is not None and change.is_below_zero else "train for longer"
    return f"None of {len(AT_THE_END)} checks has found a cause in {trained}. {read}, and {ways}."
