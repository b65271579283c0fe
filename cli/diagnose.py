"""`rlft diagnose`: why the reward of a run does not rise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from cli.guard import guarded
from cli.options import Verbose
from mlops.display.terminal import console, errors, styled
from mlops.home.entries import check_entries
from mlops.home.folder import find_home
from mlops.home.last_calls import KILLED, how_it_ended
from mlops.summary.headline import in_words

if TYPE_CHECKING:
    from mlops.summary.sections import Difference
    from rlft.diagnosis import Finding, History


def diagnose(
    run: Annotated[str, typer.Argument(help="Id or name of a run, or the beginning of either.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    stack: Annotated[str | None, typer.Option(help="The ZenML stack that the run used, if any.")] = None,
    verbose: Verbose = False,
) -> None:
    """Say why the reward of a run does not rise, the likeliest cause first, with the settings to change.

    The curves of its rounds are checked for the causes that docs/guide/diagnosis.md explains. Of a run whose validation
    has risen it is said what ended its rise, if anything did.
    """
    with guarded(verbose, None):
        home = find_home()
        check_entries(home)
        if (end := how_it_ended(home, run)) != KILLED:
            errors.print(end)
        from mlops.stacks.stack import connect

        connect(home, stack)
        from mlops.stored.diagnosis import stored_gain, stored_history
        from rlft.diagnosis import CHECKS
        from rlft.diagnosis import diagnose as find

        history, gain = stored_history(run), stored_gain(home, run)
        history = replace(history, improved=gain is not None)
        findings = find(history)
        if as_json:
            found = list(map(_as_json, findings))
            test = None if gain is None else gain.model_dump(mode="json")
            risen = {"risen": history.has_risen(), "test": test}
            console.write_json({**risen, "rounds": len(history.rounds), "findings": found})
            return
        if history.has_risen():
            console.print(_rise(history, gain))
            if not findings:
                console.print("There is nothing to explain.")
        elif not findings:
            console.print(
                f"None of {len(CHECKS)} checks has found a cause in the {len(history.rounds)} rounds. Read attempts "
                "with the highest and the lowest reward (`rlft show`), and train for longer."
            )
        for number, each in enumerate(findings, start=1):
            console.print(styled(f"{number}. {each.cause}", "bold"))
            for sentence in (each.what, each.remedy):
                console.print(f"   {sentence}")
            place = styled(each.link, f"link {each.address}" if each.address else "")
            console.print(styled("   More: ").append_text(place))


def _as_json(found: Finding) -> dict[str, str]:
    said = {"cause": found.cause, "what": found.what, "remedy": found.remedy}
    return {**said, "guide": found.link, "address": found.address}


def _rise(history: History, gain: Difference | None) -> str:
    """Return which split shows that the run has risen, and by how much if it is the test split alone."""
    if history.validation_has_risen() or gain is None:
        return "Validation is measurably better than before training."
    said = f"The trained model is measurably better on the test split: {in_words(gain)}."
    if not (validated := history.scored_validations()):
        return f"{said} It was not validated."
    tasks = len(validated[-1][1].per_task[history.metric])
    return f"{said} Validation does not show it: its {tasks} tasks are too few to tell such a gain from chance."
