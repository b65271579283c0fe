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

    The curves of its rounds are checked for sixteen causes, which docs/guide/diagnosis.md explains. A run whose
    validation has risen has none.
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
            found = [{"cause": each.cause, "what": each.what, "remedy": each.remedy} for each in findings]
            console.write_json({"risen": history.has_risen(), "rounds": len(history.rounds), "findings": found})
        elif history.has_risen():
            console.print("Validation is measurably better than before training: there is nothing to explain.")
        elif not findings:
            console.print(
                f"None of {len(CHECKS)} known causes is seen in the {len(history.rounds)} rounds. Read attempts with "
                "the highest and the lowest reward (`rlft show`), and train for longer."
            )
        for number, each in enumerate(findings, start=1):
            if not as_json:
                console.print(styled(f"{number}. {each.cause}", "bold"))
                console.print(f"   {each.what}")
                console.print(f"   {each.remedy}")
