"""Exports a policy to a new folder that `transformers`, `peft` and `vllm serve` load, in the layout of the hub:

    adapter_config.json, adapter_model.safetensors   an adapter, with the name and revision of its base
    config.json, model*.safetensors                  or all weights: of a policy that has them, or merged
    generation_config.json
    tokenizer.json, chat_template.jinja, ...
    README.md                                        the model card, if the policy has one
    context.json                                     what the environment shows, if that is known
    rlft_export.json                                 what this is, and how it was compared with the policy

It holds copies, never links, and nothing is pickled. `checkpoint_weights` has the weights of a live policy under the
same names, for vLLM.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from rlft.errors import PolicyError, RlftError, StorageError
from rlft.files import folder_prefix, remove_left_behind
from rlft.models.folder import PolicyFolder, check_base, load_policy
from rlft.models.live import Policy, PolicyMetadata
from rlft.models.origin import DTYPES, LOAD_ERRORS, choose_device, first_line, load_base
from rlft.texts.characters import visible_json

RECORD = "rlft_export.json"
_BESIDE = ("README.md", "context.json")  # texts beside a policy that an export keeps
_ADAPTER = "adapter_config.json"
_KIND = "export"  # of temporary folders
_LIMIT = {"float32": 1e-4, "bfloat16": 0.5}  # by how much rounding may change a log-probability, in nats
_ROWS, _WIDTH = 16, 32  # of the random tokens that policy and export are compared on
Form = Literal["adapter", "merged", "full"]


@dataclass(frozen=True, slots=True)
class ExportCheck:
    """What a comparison of a policy with its export found.

    `max_difference` and `mean_difference` (in nats) are those between the log-probabilities that both give `tokens`
    random tokens, and `limit` is the largest that rounding explains.
    """

    tokens: int
    policy_dtype: str
    export_dtype: str
    max_difference: float
    mean_difference: float
    limit: float


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
            "check": asdict(self.check),
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
    metadata, tokenizer, expected = policy.metadata, policy.tokenizer, _score(policy)
    del policy
    gc.collect()
    form = form_of(metadata, merge=merge)
    with _written_aside(place) as folder:
        _write(source, metadata, folder, form)
        check = _compare(expected, _load(folder, metadata, tokenizer, device), source)
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


def _load(folder: Path, metadata: PolicyMetadata, tokenizer: PreTrainedTokenizerBase, device: torch.device) -> Policy:
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


def _score(policy: Policy) -> Tensor:
    """Return the log-probabilities of fixed random tokens after those before them, float32 [rows, tokens]."""
    width = min(_WIDTH, policy.context_length or _WIDTH)
    vocabulary = policy.model.config.get_text_config().vocab_size
    ids = torch.randint(vocabulary, (_ROWS, width), generator=torch.Generator().manual_seed(0)).to(policy.device)
    with torch.no_grad():
        logits = policy.model(input_ids=ids).logits[:, :-1].float()
    return logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1).cpu()


def _compare(expected: Tensor, exported: Policy, source: PolicyFolder) -> ExportCheck:
    """Compare a policy's log-probabilities with those of its export. Raises PolicyError if it is another model."""
    gap = (expected - _score(exported)).abs().nan_to_num(nan=torch.inf)
    dtype, own = str(next(exported.model.parameters()).dtype).removeprefix("torch."), exported.metadata.dtype
    limit = _LIMIT["float32" if own == dtype == "float32" else "bfloat16"]
    check = ExportCheck(gap.numel(), own, dtype, float(gap.max()), float(gap.mean()), limit)
    if check.max_difference > limit:
        raise PolicyError(
            f"the exported model is another one: log-probabilities of random tokens differ by "
            f"{check.max_difference:.3g}, more than the {limit:g} that rounding explains",
            where=str(source.path),
            fix="nothing was written; this is an error of rlft, peft or transformers with this model: please report it "
            "with the name of the base",
        )
    return check


def check_target(target: Path) -> Path:
    """Return the absolute path of a folder that is to be written, without symbolic links.

    Raises RlftError if something is there, except an empty folder.
    """
    resolved = target.expanduser().resolve()
    if resolved.is_dir() and (taken := next(resolved.iterdir(), None)) is not None:
        what = f"the folder is not empty: it holds {taken.name}"
        raise RlftError(what, where=str(target), fix="name a new folder")
    if resolved.exists() and not resolved.is_dir():
        raise RlftError("this is a file", where=str(target), fix="name a new folder")
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
