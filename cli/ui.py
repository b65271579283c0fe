"""`rlft ui`: the MLflow UI over the runs, or the address of the server that a stack names."""

from __future__ import annotations

import ipaddress
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from cli.guard import guarded
from cli.options import Verbose
from mlops.home.databases import check_home
from mlops.home.folder import Home, find_home
from mlops.stacks.stack import connect
from rlft.errors import RlftError
from rlft.reporting.terminal import Terminal, console, styled

HOST, PORT = "127.0.0.1", 5000
# MLflow's server starts five processes for evaluation jobs, which rlft never gives it; they take 2 GB.
_SETTINGS = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def ui(
    stack: Annotated[
        str | None, typer.Option(help="Show the MLflow of this ZenML stack of yours; without it that of .rlft/.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; 127.0.0.1 if none is given.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 5000 if none is given.", min=1, max=65535)
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Show runs, curves, traces and models in the MLflow UI, on loopback unless another host is named."""
    with guarded(verbose, None):
        raise typer.Exit(show_ui(find_home(), stack, host, port, console))


def show_ui(home: Home, stack: str | None, host: str | None, port: int | None, console: Terminal) -> int:
    """Start the UI and wait for its end, or print the address of the stack's server; returns an exit code.

    `host` and `port` default to `HOST` and `PORT`. Raises RlftError where there is nothing to show, where they are
    given for a server that runs already, and where nothing can listen there.
    """
    if stack is None:
        check_home(home)
        if not home.note.is_file():
            raise RlftError("nothing has been tracked yet", where=str(home.root), fix="start a run first")
    uri = home.tracking_uri if stack is None else connect(home, stack)
    if uri.startswith(("http://", "https://")):
        if host is not None or port is not None:
            raise RlftError(
                f"the MLflow server of the stack {stack!r} runs already, at {uri}",
                where="--host, --port",
                fix="leave them out",
            )
        _print(pages(uri), console)
        return 0
    host, port = host or HOST, PORT if port is None else port
    check_free(host, port)
    if not is_loopback(host):
        said = "Whoever reaches this machine there can read and change all runs and models: MLflow asks nobody"
        console.print(styled(f"{said} who they are.", "yellow"))
    name = f"[{host}]" if ":" in host else host
    _print([*pages(f"http://{name}:{port}"), "Ctrl-C ends it."], console)
    command = [sys.executable, "-m", "mlflow", "ui", "--host", host, "--port", str(port)]
    arguments = [*command, "--backend-store-uri", uri, "--workers", "1"]
    # In a session of its own MLflow does not get the terminal's Ctrl-C, at which it would print a traceback. Whatever
    # interrupts this process ends its children: `subprocess.call` would kill the parent of the one that listens.
    environment = {**os.environ, **_SETTINGS, **_allowed(host, port)}
    return subprocess.Popen(arguments, start_new_session=True, env=environment).wait()


def pages(server: str) -> list[str]:
    """Return lines that say where a person finds runs and registered models on an MLflow server.

    MLflow 3 opens in a mode for agents and prompts, whose menu has no registered models. An address chooses the mode
    for its own page alone; the switch in the menu is remembered by the browser.
    """
    base = server.rstrip("/")
    return [
        f"Runs, curves, traces: {base}/#/experiments?workflowType=machine_learning",
        f"Registered models:    {base}/#/models",
        "Choose `Model training` above the menu once: the other mode, `GenAI`, hides the registered models.",
    ]


def _print(lines: Sequence[str], console: Terminal) -> None:
    for line in lines:
        console.print(line, soft_wrap=True)


def check_free(host: str, port: int) -> None:
    """Raise RlftError if nothing can listen there, before what would say so in twenty lines is started."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        socket.create_server((host, port), family=family).close()
    except OSError as cause:
        what = f"nothing can listen on port {port} of {host}: {cause.strerror}"
        fix = "end the program that uses it, or name another port, or a host of this machine"
        raise RlftError(what, where="--host, --port", fix=fix) from cause


def is_loopback(host: str) -> bool:
    """Return whether an address or name is that of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _allowed(host: str, port: int) -> dict[str, str]:
    """Return the environment variable that lets MLflow answer requests that name `host` or this machine.

    MLflow answers only requests that name a host it knows: by default loopback and addresses of private networks.
    """
    name = "MLFLOW_SERVER_ALLOWED_HOSTS"
    if is_loopback(host) or name in os.environ:
        return {}
    own = {host, socket.gethostname(), socket.getfqdn()} - {"0.0.0.0", "::"}
    private = ["localhost:*", "127.0.0.1:*", "192.168.*", "10.*", *(f"172.{number}.*" for number in range(16, 32))]
    return {name: ",".join([*private, *(f"{each}:{port}" for each in sorted(own))])}
