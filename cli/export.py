"""`rlft export`: a registered version as a folder that other programs load."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from cli.registry import RegistryStack, TrackingUri, registry
from rlft.reporting.terminal import Terminal, console, styled

if TYPE_CHECKING:
    from rlft.models.export import Exported

NamedVersion = Annotated[
    str, typer.Argument(metavar="VERSION", help="NAME@champion or NAME/3; models:/ before it will do, too.")
]


def export(
    version: NamedVersion,
    to: Annotated[Path, typer.Option(help="The new folder.", resolve_path=True)],
    merge: Annotated[bool, typer.Option("--merge", help="Merge an adapter into its base.")] = False,
    stack: RegistryStack = None,
    tracking_uri: TrackingUri = None,
    as_json: ResultAsJson = False,
    verbose: Verbose = False,
) -> None:
    """Write a version to a folder that transformers, peft and `vllm serve` load."""
    with guarded(verbose, None), tempfile.TemporaryDirectory(prefix="rlft-version-") as temporary:
        with registry(stack, tracking_uri) as asked:
            from rlft.models.export import check_target

            check_target(to)  # before anything is downloaded
            from mlops.registry.client import download_version, find_version, split_version

            address = asked.client.tracking_uri
            name, alias, number = split_version(version)
            found = find_version(address, name, alias, number)
            source = download_version(address, name, found.version, Path(temporary) / "version")
        from rlft.models import PolicyFolder
        from rlft.models.export import export_policy

        label = {"name": name, "version": found.version, "alias": alias}
        done = export_policy(PolicyFolder(source), to, merge=merge, label=label)
        if as_json:
            console.write_json({"folder": str(done.folder), **label, **done.as_json()})
        else:
            _show(console, done, f"version {found.version} of {name}", name)


def _show(console: Terminal, done: Exported, what: str, name: str) -> None:
    known = done.metadata
    form = {"adapter": "as an adapter on", "merged": "merged into", "full": "with all its weights"}[done.form]
    revision = f" ({known.base_revision})" if known.base_revision else ""
    base = "" if done.form == "full" else f" {known.base_model}{revision}"
    console.print(f"{what} is in {done.folder}, {form}{base}", soft_wrap=True)
    if done.form == "adapter" and Path(str(known.base_model)).is_dir():
        note = (
            "the base is a folder of this machine: on another one name its own in adapter_config.json, or use --merge"
        )
        console.print(styled(note, "yellow"))
    console.print(f"to serve it: {vllm_command(done, name)}", soft_wrap=True)


def vllm_command(done: Exported, name: str) -> str:
    """Return the command that serves an export with vLLM alone."""
    from shlex import join

    from rlft.engines.serving import dtype_of, rank_that_holds

    folder, known = str(done.folder), done.metadata
    if done.form != "adapter":
        return join(["vllm", "serve", folder, "--dtype", dtype_of(done.folder), "--served-model-name", name])
    rank = rank_that_holds(json.loads((done.folder / "adapter_config.json").read_text(encoding="utf-8"))["r"])
    revision = ["--revision", known.base_revision] if known.base_revision else []
    base = ["vllm", "serve", str(known.base_model), *revision, "--dtype", known.dtype]
    files = ["--tokenizer", folder, "--generation-config", folder]
    lora = ["--enable-lora", "--max-lora-rank", str(rank), "--lora-modules", f"{name}={folder}"]
    return join([*base, *files, *lora])
