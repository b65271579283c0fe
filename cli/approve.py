"""`rlft approve`: a version that has passed its gate and waits for a person becomes the champion."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import Verbose
from cli.registry import AsJson, Name, RegistryStack, TrackingUri, Version, reason_of, registry
from rlft.terminal import console, styled


def approve(
    name: Name,
    version: Version,
    reason: Annotated[str | None, typer.Option(help="Why, in a sentence; it is noted in the registry.")] = None,
    stack: RegistryStack = None,
    tracking_uri: TrackingUri = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Make a version that waits for approval the champion, if nothing has moved since it was decided about.

    Its files, the champion that it was compared with, and the look at its gate must be what they were.
    """
    with guarded(verbose, None), registry(stack, tracking_uri) as asked:
        from mlops.registry.client import find_model, version_of
        from mlops.registry.decisions import approve as decide
        from mlops.registry.decisions import note_better
        from mlops.registry.names import who_am_i

        why = reason_of(reason) if reason is not None else ""
        model = find_model(asked.client, name).name
        who = who_am_i(asked.client.tracking_uri)
        with asked.alone:
            found = version_of(asked.client, model, version)
            before = decide(asked.client, found, why, who)
            note = note_better(asked.client, found)
        number = str(found.version)
        if as_json:
            said = {"name": model, "version": number, "verdict": "approved", "before": before}
            console.write_json({**said, "by": who.name, "verified": who.verified, "reason": why, "note": note})
        else:
            instead = f", in the place of version {before}" if before else ""
            console.print(f"version {number} of {model} is champion{instead}")
            console.print(f"noted: approved by {who}" + (f": {why}" if why else ""))
            if note:
                console.print(styled(note, "yellow"))
