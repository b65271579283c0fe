"""`rlft serve-engine`: a vLLM server that runs sample from."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import ConfigPath, Overrides, Verbose
from mlops.display.terminal import console
from mlops.home.folder import find_home
from rlft.config.file import load_config


def serve_engine(
    context: typer.Context,
    config: ConfigPath,
    overrides: Overrides = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. One that is not loopback needs a config with policy.lora.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 8000,
    verbose: Verbose = False,
) -> None:
    """Start a vLLM server for `rollout.engine: vllm_server`; further options are passed on to `vllm serve`."""
    with guarded(verbose, None):
        settings = load_config(config, overrides)
        from rlft.engines.serving import serve_command

        home = find_home()
        home.make()
        folder = home.root / "serve-engine" / settings.name
        command, variables = serve_command(settings, folder, host=host, port=port, extra=context.args)
        name = f"[{host}]" if ":" in host else host
        console.print(f"http://{name}:{port} (Ctrl-C ends it)")
        sys.stdout.flush()  # exec discards what is still in Python's buffer
        os.execve(command[0], command, {**os.environ, **variables})
