"""`rlft doctor`: what is missing or broken on this machine, and how to mend it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from mlops.display.terminal import Terminal, console, errors, styled
from mlops.doctor.finding import Finding
from mlops.doctor.home import check_home
from mlops.doctor.machine import check_machine
from mlops.home.folder import find_home


def doctor(
    verify: Annotated[
        bool, typer.Option("--verify", help="Also read all that runs have stored here, and say what is damaged.")
    ] = False,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Say what is missing or broken on this machine, and mark runs that were killed as failed.

    The exit code is 1 if something is broken, and 0 otherwise.
    """
    with guarded(verbose, None):
        home = find_home()
        told = errors if as_json else console
        findings = [*check_machine(home), *check_home(home)]
        result: dict[str, Any] = {"findings": [asdict(each) for each in findings]}
        if not as_json:
            _show(findings, console)
        whole = all(finding.state != "broken" for finding in findings)
        if verify:
            from cli.verify import show_verified, verify_stored

            result["verified"] = verified = verify_stored(home)
            show_verified(verified, told)
            whole = whole and not verified["damages"]
        if as_json:
            console.write_json(result)
        if not whole:
            raise typer.Exit(1)


def _show(findings: list[Finding], console: Terminal) -> None:
    """Print what was found as a table."""
    colours = {"ok": "green", "warning": "yellow", "broken": "red"}
    table = Table("", "what", "what to do")
    for finding in findings:
        table.add_row(styled(finding.state, colours[finding.state]), finding.what, finding.fix)
    console.print(table)
