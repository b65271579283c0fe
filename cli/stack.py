"""`rlft stack`: register a ZenML stack from a file."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import Verbose
from mlops.display.terminal import console


def stack(
    file: Annotated[Path, typer.Argument(help="A YAML file such as configs/stacks/local.yaml.")],
    manifests: Annotated[
        Path | None,
        typer.Option(
            help="Register nothing, and write into this folder what a stack in Kubernetes asks of its cluster."
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Register or update in your own ZenML the stack that a file describes."""
    with guarded(verbose, None):
        from mlops.stacks.file import apply_stack_file, read_stack_file, validate_components

        described = read_stack_file(file)
        if manifests is None:
            name = apply_stack_file(described)
            console.print(f"Stack {name} is registered: rlft run CONFIG --stack {shlex.quote(name)}")
            return
        from mlops.stacks.image import IMAGE
        from mlops.stacks.manifests import write_manifests
        from rlft.errors import StackError

        if manifests.exists() and not manifests.is_dir():
            raise StackError("this is a file", where=str(manifests), fix="name a folder, which is made if need be")
        validate_components(described)
        for written in write_manifests(described, manifests, os.environ.get(IMAGE, "IMAGE")):
            console.print(f"wrote {written}")
        if IMAGE not in os.environ:
            console.print(
                f"{IMAGE} is not set: put the name of your image where these files say IMAGE, before they are applied"
            )
