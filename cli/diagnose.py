"""`rlft diagnose`: why the reward of a run does not rise."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import Verbose
from mlops.display.terminal import console, errors, styled
from mlops.home.entries import check_entries
from mlops.home.folder import find_home
from mlops.home.last_calls import KILLED, how_it_ended


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
        from mlops.stored.diagnosis import stored_history
        from rlft.diagnosis import CHECKS
        from rlft.diagnosis import diagnose as find

        history = stored_history(run)
        findings = find(history)
        if as_json:
            found = [
                {"cause": each.cause, "what": each.what, "remedy": each.remedy, "guide": each.link} for each in findings
            ]
            console.write_json({"risen": history.has_risen(), "rounds": len(history.rounds), "findings": found})
            return
        if history.has_risen():
            nothing = "" if findings else ": there is nothing to explain"
            console.print(f"Validation is measurably better than before training{nothing}.")
        elif not findings:
            console.print(
                f"None of {len(CHECKS)} checks has found a cause in the {len(history.rounds)} rounds. Read attempts "
                "with the highest and the lowest reward (`rlft show`), and train for longer."
            )
        for number, each in enumerate(findings, start=1):
            console.print(styled(f"{number}. {each.cause}", "bold"))
            for sentence in (each.what, each.remedy, f"More: {each.link}"):
                console.print(f"   {sentence}")
