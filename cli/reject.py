"""`rlft reject`: a version that has passed its gate and waits for a person does not become the champion."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import Verbose
from cli.registry import AsJson, Name, RegistryStack, TrackingUri, Version, reason_of, registry
from rlft.terminal import console


def reject(
    name: Name,
    version: Version,
    reason: Annotated[str, typer.Option(help="Why, in a sentence; it is noted in the registry.")],
    stack: RegistryStack = None,
    tracking_uri: TrackingUri = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Note that a version that waits for approval does not become the champion, with who decided it, when, and why."""
    with guarded(verbose, None), registry(stack, tracking_uri) as asked:
        from mlops.registry.client import find_model, version_of
        from mlops.registry.decisions import reject as decide
        from mlops.registry.names import who_am_i

        why = reason_of(reason)
        model = find_model(asked.client, name).name
        who = who_am_i(asked.client.tracking_uri)
        with asked.alone:
            found = version_of(asked.client, model, version)
            decide(asked.client, found, why, who)
        if as_json:
            said = {"name": model, "version": str(found.version), "verdict": "rejected"}
            console.write_json({**said, "by": who.name, "verified": who.verified, "reason": why})
        else:
            console.print(f"version {found.version} of {model} does not become the champion")
            console.print(f"noted: rejected by {who}: {why}")
