"""`rlft serve`: a registered version over HTTP. `rlft serve-engine`: a vLLM server that runs sample from."""

from __future__ import annotations

import os
import socket
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli.export import NamedVersion
from cli.guard import guarded
from cli.options import ConfigPath, Overrides, Verbose
from cli.registry import RegistryStack, TrackingUri, registry
from cli.ui import check_free, is_loopback
from mlops.home.folder import find_home
from rlft.config.file import load_config
from rlft.errors import RlftError
from rlft.reporting.terminal import console, styled

if TYPE_CHECKING:
    from mlops.registry.engines import Backend


_OPEN = "Whoever reaches this machine there can ask the model: nobody is asked who they are."
_NOT_PASSED_ON = (
    "--uds", "--api-key", "--model", "--served-model-name", "--tokenizer", "--lora-modules", "--enable-lora",
)  # fmt: skip


class EngineName(StrEnum):
    """What answers."""

    VLLM = "vllm"
    MLFLOW = "mlflow"


class Kept(StrEnum):
    """How conversations are kept."""

    MASKED = "masked"
    PLAIN = "plain"


Logged = Annotated[
    Kept | None,
    typer.Option(help="Keep what is asked and answered as MLflow traces, with personal data masked or as it is."),
]


def serve(
    context: typer.Context,
    version: NamedVersion,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 8000,
    engine: Annotated[
        EngineName, typer.Option(help="vllm answers as OpenAI does, mlflow is `mlflow models serve`.")
    ] = EngineName.VLLM,
    merge: Annotated[bool, typer.Option("--merge", help="vLLM gets the adapter merged into its base.")] = False,
    log_conversations: Logged = None,
    stack: RegistryStack = None,
    tracking_uri: TrackingUri = None,
    verbose: Verbose = False,
) -> None:
    """Serve a version over HTTP, on this machine alone unless another host is named.

    Options that this command does not know are passed on to `vllm serve`.
    """
    with guarded(verbose, None):
        _check(engine, merge=merge, extra=context.args)
        check_free(host, port)
        with registry(stack, tracking_uri) as asked:
            from mlops.registry.client import find_version, split_version

            address = asked.client.tracking_uri
            name, alias, number = split_version(version)
            found = find_version(address, name, alias, number)
        from mlops.registry.server import Settings, serve

        if not is_loopback(host):
            console.print(styled(_OPEN, "yellow"))
        console.print(f"version {found.version} of {name} is loaded, which can take minutes (Ctrl-C ends it)")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family, backlog=2048) as listener:
            url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            given = address, found, alias, engine.value, listener, merge, context.args
            mask = log_conversations is not Kept.PLAIN
            serve(Settings(*given, log_conversations is not None, mask), lambda backend: _say(url, backend, engine))


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


def _check(engine: EngineName, *, merge: bool, extra: list[str]) -> None:
    """Raise RlftError for options that do not go together, and without vLLM where it is to answer."""
    if engine == EngineName.MLFLOW:
        if merge or extra:
            given = "--merge" if merge else extra[0]
            raise RlftError("this is an option of vLLM's", where=given, fix="leave it out, or serve with vLLM")
        return
    from rlft.engines.kinds import is_installed

    if not is_installed("vllm"):
        raise RlftError("vLLM is not installed", fix="make setup-vllm, or serve with --engine mlflow")
    if given := [option for option in extra if option.split("=")[0] in _NOT_PASSED_ON]:
        raise RlftError("rlft gives this option to vLLM itself", where=given[0], fix="leave it out")


def _say(url: str, backend: Backend, engine: EngineName) -> None:
    version = backend.version
    what = f"version {version.number} of {version.name}" + (f", its {version.alias}" if version.alias else "")
    path = "v1" if engine == EngineName.VLLM else "invocations"
    console.print(f"{what} answers at {url}/{path} (model: {version.name}); {url}/rlft/version says which it is")
    console.file.flush()
