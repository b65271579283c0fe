"""`rlft stack`: register a ZenML stack from a file."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import Verbose
from rlft.reporting.terminal import console


def stack(
    file: Annotated[Path, typer.Argument(help="A YAML file such as configs/stacks/local.yaml.")],
    pod: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Register nothing, and write into this file the pod of a run in Kubernetes."),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Register or update in your own ZenML the stack that a file describes."""
    with guarded(verbose, None):
        from mlops.stacks.file import apply_stack_file, read_stack_file, validate_components

        described = read_stack_file(file)
        if pod is None:
            name = apply_stack_file(described)
            console.print(f"Stack {name} is registered: rlft run CONFIG --stack {shlex.quote(name)}")
            return
        from mlops.stacks.image import IMAGE
        from mlops.stacks.kubernetes import write_pod

        validate_components(described)
        write_pod(described, pod, os.environ.get(IMAGE, "IMAGE"))
        console.print(
            f"`kubectl apply --dry-run=server --filename {shlex.quote(str(pod))}` says if the cluster takes it"
        )
