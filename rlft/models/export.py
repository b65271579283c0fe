"""Exports a policy to a new folder that `transformers`, `peft` and `vllm serve` load, in the layout of the hub:

    adapter_config.json, adapter_model.safetensors   an adapter, with the name and revision of its base
    config.json, model*.safetensors                  or all weights: of a policy that has them, or merged
    generation_config.json
    tokenizer.json, chat_template.jinja, ...
    README.md                                        the model card, if the policy has one
    context.json                                     what the environment shows, if that is known
    rlft_export.json                                 what this is

It holds copies, never links, and nothing is pickled. `checkpoint_weights` has the weights of a live policy under the
same names, for vLLM.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn

from rlft.errors import RlftError, StorageError
from rlft.files import folder_prefix, remove_left_behind
from rlft.models.folder import PolicyFolder, check_base
from rlft.models.live import PolicyMetadata
from rlft.models.origin import DTYPES, load_base
from rlft.texts.characters import visible_json

RECORD = "rlft_export.json"
_BESIDE = ("README.md", "context.json")  # texts beside a policy that an export keeps
_ADAPTER = "adapter_config.json"
_KIND = "export"  # of temporary folders
Form = Literal["adapter", "merged", "full"]


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported folder, its form, and the metadata of the policy.

    `form` is `adapter`, `merged`, or `full` for a policy that had all weights anyway.
    """

    folder: Path
    form: Form
    metadata: PolicyMetadata

    def as_json(self) -> dict[str, Any]:
        """Return what the export is, as in `rlft_export.json`."""
        known = self.metadata
        base = {"name": known.base_model, "revision": known.base_revision, "sha256": known.base_hash}
        return {
            "form": self.form,
            "base": base if known.base_model else None,
            "weights_sha256": known.weights_hash,
        }


def export_policy(source: PolicyFolder, target: Path, *, merge: bool, label: Mapping[str, Any]) -> Exported:
    """Export a policy to the new folder `target`.

    With `merge` an adapter is merged into its base in float32, and the result has the policy's data type. `label` says
    which version this is, for `rlft_export.json`. Raises RlftError if something is at `target` already, DamagedError if
    the policy is not what was stored, PolicyError if its base has changed or does not load, and StorageError if the
    disk does not take it; then nothing is left.
    """
    place, metadata = check_target(target), source.metadata
    with _written_aside(place) as folder:
        write_export(source, folder, merge=merge)
        done = Exported(place, form_of(metadata, merge=merge), metadata)
        (folder / RECORD).write_text(visible_json({**label, **done.as_json()}) + "\n", encoding="utf-8")
    return done


def form_of(metadata: PolicyMetadata, *, merge: bool) -> Form:
    """Return the form in which a policy is exported."""
    return "full" if metadata.kind == "full" else "merged" if merge else "adapter"


def write_export(source: PolicyFolder, folder: Path, *, merge: bool) -> None:
    """Write the files of an export into an empty folder.

    The base is compared with its hash. Raises DamagedError if the policy is not what was stored, and PolicyError if its
    base has changed or does not load.
    """
    metadata, form = source.metadata, form_of(source.metadata, merge=merge)
    source.check()
    check_base(source)
    _copy(source.path / "tokenizer", folder)
    for name in _BESIDE:
        if (source.path / name).is_file():
            shutil.copyfile(source.path / name, folder / name)
    if form == "merged":
        _merge(source, metadata, folder)
    else:
        _copy(source.path / "model", folder)
    if form == "adapter":
        _name_base(folder / _ADAPTER, metadata)
    _strip(folder)


def _merge(source: PolicyFolder, metadata: PolicyMetadata, folder: Path) -> None:
    """Write the base with the adapter merged into it; computed in float32 and rounded once, to the policy's type."""
    name, revision = str(metadata.base_model), metadata.base_revision
    base, _ = load_base(name, revision, "float32")
    adapted: Any = PeftModel.from_pretrained(base, str(source.path / "model"))
    _untie(adapted.get_base_model())
    merged: Any = adapted.merge_and_unload(safe_merge=True)
    merged.to(DTYPES[metadata.dtype])
    merged.save_pretrained(folder, safe_serialization=True)
    own = source.path / "model" / "generation_config.json"
    if own.is_file():
        shutil.copyfile(own, folder / own.name)


def _untie(model: Any) -> None:
    """Give embedding and head weights of their own if an adapter is on one of them, which is merged into that alone."""
    both = model.get_input_embeddings(), model.get_output_embeddings()
    if any(isinstance(layer, BaseTunerLayer) for layer in both):
        head: Any = both[1].get_base_layer() if isinstance(both[1], BaseTunerLayer) else both[1]
        head.weight = torch.nn.Parameter(head.weight.clone())
        model.config.tie_word_embeddings = model.config.get_text_config().tie_word_embeddings = False


def _name_base(file: Path, metadata: PolicyMetadata) -> None:
    """Write name and revision of the base into an adapter's config, for inference."""
    settings = json.loads(file.read_text(encoding="utf-8"))
    settings |= {"base_model_name_or_path": metadata.base_model, "revision": metadata.base_revision}
    settings["inference_mode"] = True
    file.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _strip(folder: Path) -> None:
    """Take out of the configs where on this machine the files lay that they were read from."""
    for file in folder.glob("*config.json"):
        settings = json.loads(file.read_text(encoding="utf-8"))
        kept = {key: value for key, value in settings.items() if key not in ("_name_or_path", "name_or_path")}
        if kept != settings:
            file.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def _copy(source: Path, folder: Path) -> None:
    """Copy the files of a folder, those behind symbolic links as files."""
    for file in source.iterdir():
        if file.is_file():
            shutil.copyfile(file, folder / file.name)


def check_target(target: Path) -> Path:
    """Return the absolute path of a folder that is to be written, without symbolic links.

    Raises RlftError if something is there, except an empty folder.
    """
    resolved = target.expanduser().resolve()
    if resolved.exists() and not (resolved.is_dir() and not any(resolved.iterdir())):
        raise RlftError("this is there already", where=str(target), fix="name a new folder")
    return resolved


@contextmanager
def _written_aside(target: Path) -> Iterator[Path]:
    """Yield a folder beside `target`, and move it there at the end; it is removed if anything is raised.

    What a killed process left beside it goes first. Raises StorageError if the disk does not take it, or if something
    has come to be at `target` meanwhile.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_left_behind(_KIND, target.parent)
        with tempfile.TemporaryDirectory(prefix=folder_prefix(_KIND), dir=target.parent) as aside:
            folder = Path(aside) / target.name
            folder.mkdir()  # with the access that folders have here; the one around it is for its owner alone
            yield folder
            os.replace(folder, target)  # an empty folder is replaced, any other one is not
    except OSError as cause:
        what = f"the export could not be written: {cause}"
        raise StorageError(what, where=str(target), fix="make room, or name another folder") from cause


def checkpoint_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield all weights by checkpoint name, one layer at a time; an adapter's are merged into those of its layer.

    Tied weights come under each of their names, as vLLM would keep its old output layer otherwise. Where there is no
    adapter the tensors are the model's own: copy what is to be kept. Afterwards the model is as it was, byte for byte,
    also when the iteration ends early.
    """
    base: nn.Module = model.get_base_model() if isinstance(model, PeftModel) else model
    for prefix, module in base.named_modules():
        own = module.named_parameters
        if isinstance(module, BaseTunerLayer):
            with _merged(module) as weight:
                yield f"{prefix}.weight", weight
        for name, parameter in own(prefix, recurse=False):
            of_adapter = any(part.startswith("lora_") for part in name.split("."))
            if not of_adapter and not name.endswith("base_layer.weight"):
                yield name.replace(".base_layer", ""), parameter.detach()


@contextmanager
def _merged(layer: Any) -> Iterator[Tensor]:
    """Provide a layer's weight with its adapters merged, and restore the layer.

    The old weight is copied back, because `unmerge` subtracts the adapters and so leaves rounding behind.
    """
    weight: nn.Parameter = layer.get_base_layer().weight
    before = weight.detach().clone()
    try:
        with torch.no_grad():
            if not layer.disable_adapters:
                layer.merge()
        yield weight.detach().clone()
    finally:
        with torch.no_grad():
            if layer.merged:
                layer.unmerge()
            weight.copy_(before)
