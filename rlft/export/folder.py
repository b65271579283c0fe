"""Exports a policy to a new folder, in the layout of the Hugging Face Hub:

    adapter_config.json, adapter_model.safetensors   an adapter, with the name and revision of its base
    config.json, model*.safetensors                  or all weights: of a policy that has them, or merged
    generation_config.json
    tokenizer.json, chat_template.jinja, ...
    README.md                                        the model card, if the policy has one
    context.json                                     what the environment shows, if that is known
    rlft_export.json                                 what this is, and how it was compared with the policy

It holds copies, never links, and nothing is pickled.
"""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from rlft.errors import PolicyError
from rlft.export.check import ExportCheck, answer_canaries, canary_prompts, compare
from rlft.export.place import check_target, written_aside
from rlft.models import Policy, PolicyFolder, PolicyMetadata, load_policy
from rlft.models.folder import check_base
from rlft.models.origin import DTYPES, LOAD_ERRORS, choose_device, first_line, load_base
from rlft.texts.characters import visible_json

RECORD = "rlft_export.json"
_BESIDE = ("README.md", "context.json")  # texts beside a policy that an export keeps
_ADAPTER = "adapter_config.json"
Form = Literal["adapter", "merged", "full"]


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported folder: its form, the base under an adapter or of a merged model, and its comparison.

    `form` is `adapter`, `merged`, or `full` for a policy that had all weights anyway.
    """

    folder: Path
    form: Form
    metadata: PolicyMetadata
    check: ExportCheck

    def as_json(self) -> dict[str, Any]:
        """Return what the export is, as in `rlft_export.json`."""
        known = self.metadata
        base = {"name": known.base_model, "revision": known.base_revision, "sha256": known.base_hash}
        return {
            "form": self.form,
            "base": base if known.base_model else None,
            "weights_sha256": known.weights_hash,
            "check": self.check.as_json(),
        }


def export_policy(source: PolicyFolder, target: Path, *, merge: bool, label: Mapping[str, Any]) -> Exported:
    """Export a policy to the new folder `target`, and compare what was written with the policy.

    With `merge` an adapter is merged into its base in float32, and the result has the policy's data type. `label` says
    which version this is, for `rlft_export.json`. Only one model is in memory at a time. Raises RlftError if something
    is at `target` already, DamagedError if the policy is not what was stored, PolicyError if its base has changed, does
    not load, or if the export answers otherwise, and StorageError if the disk does not take it; then nothing is left.
    """
    place, device = check_target(target), choose_device("auto")
    policy = load_policy(source, device)  # it compares files and base with their hashes
    metadata, tokenizer = policy.metadata, policy.tokenizer
    answers = answer_canaries(policy, canary_prompts(policy))
    del policy
    gc.collect()
    form = form_of(metadata, merge=merge)
    with written_aside(place) as folder:
        _write(source, metadata, folder, form)
        loaded = load_export(folder, metadata, tokenizer, device)
        check = compare(answers, loaded, metadata.dtype)
        del loaded
        check.raise_if_other(str(source.path))
        done = Exported(place, form, metadata, check)
        (folder / RECORD).write_text(visible_json({**label, **done.as_json()}) + "\n", encoding="utf-8")
    return done


def form_of(metadata: PolicyMetadata, *, merge: bool) -> Form:
    """Return the form in which a policy is exported."""
    return "full" if metadata.kind == "full" else "merged" if merge else "adapter"


def write_export(source: PolicyFolder, folder: Path, *, merge: bool) -> None:
    """Write the files of an export into an empty folder, without a comparison: for a program that is served by rlft.

    The base is compared with its hash. Raises DamagedError if the policy is not what was stored, and PolicyError if its
    base has changed or does not load.
    """
    metadata = source.metadata
    source.check()
    check_base(source)
    _write(source, metadata, folder, form_of(metadata, merge=merge))


def _write(source: PolicyFolder, metadata: PolicyMetadata, folder: Path, form: Form) -> None:
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


def load_export(
    folder: Path, metadata: PolicyMetadata, tokenizer: PreTrainedTokenizerBase, device: torch.device
) -> Policy:
    """Load an exported folder as a user would, with transformers alone; an adapter's base in the policy's data type."""
    is_adapter = (folder / _ADAPTER).is_file()
    dtype = DTYPES[metadata.dtype] if is_adapter else "auto"
    revision = {"revision": metadata.base_revision} if is_adapter and metadata.base_revision else {}
    try:
        read = AutoTokenizer.from_pretrained(folder)
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, use_safetensors=True, **revision)
    except LOAD_ERRORS as cause:
        raise PolicyError(f"the exported folder does not load: {first_line(cause)}", where=str(folder)) from cause
    if len(read) != len(tokenizer) or read.chat_template != tokenizer.chat_template:
        raise PolicyError("the exported folder has another tokenizer than the policy", where=str(folder))
    return Policy(model=model.to(device).eval(), tokenizer=read, metadata=metadata)


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
