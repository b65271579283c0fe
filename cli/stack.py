"""`rlft stack`: register a ZenML stack from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import Verbose
from mlops.display.terminal import console


def stack(
    file: Annotated[Path, typer.Argument(help="A YAML file such as configs/stacks/local.yaml.")],
    verbose: Verbose = False,
) -> None:
    """Register or update in your own ZenML the stack that a file describes."""
    with guarded(verbose, None):
        from mlops.stacks.file import apply_stack_file, read_stack_file

        name = apply_stack_file(read_stack_file(file))
        console.print(f"Stack {name} is registered: rlft run CONFIG --stack {name}")
