"""Saves a policy to a folder and loads it. The folder holds:

    policy.json            what it is: base model, revision, hashes, round, parent
    model/                 all weights, or the adapter (safetensors)
    tokenizer/
    optimizer.safetensors  first and second moments by parameter name, and float32 weights where the model's are
                           half precision; absent before the first update

Nothing is pickled. Loading a folder gives the same bytes in every process, so a step may start warm or cold.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from rlft.errors import DamagedError, PolicyError, WeightsRemovedError
from rlft.files import Seal, writing
from rlft.models.live import Policy, PolicyMetadata
from rlft.models.origin import DTYPES, LOAD_ERRORS, align, base_folder, first_line, hash_weights, load_base
from rlft.models.sharding import whole_copies
from rlft.types.formats import KEY, POLICY

METADATA_FILE = "policy.json"
OPTIMIZER_FILE = "optimizer.safetensors"
_LOADED = {"is_local", "local_files_only"}  # entries of a tokenizer's settings by how its own files were found
_INCIDENTAL = {  # entries of config files that do not change what a policy does, and are left out of `content_hash`
    *_LOADED,
    "_name_or_path",
    "base_model_name_or_path",
    "inference_mode",
    "name_or_path",
    "peft_version",
    "revision",
    "transformers_version",
}


@dataclass(frozen=True, slots=True)
class PolicyFolder:
    """Names a policy on disk by the path of the folder that holds it.

    `seal` is that of the artifact that the folder is in; `None` for one that is not stored, or that was stored before
    there were seals.
    """

    path: Path
    seal: Seal | None = None

    NAME: ClassVar[str] = "policy"  # of the folder in an artifact

    @property
    def metadata(self) -> PolicyMetadata:
        """The contents of `policy.json`. Raises PolicyError if there is none, and DamagedError if it is not readable.

        With a seal both are a DamagedError, and so is a file that has changed. Raises FormatVersionError for a format
        that is not read.
        """
        file = self.path / METADATA_FILE
        if self.seal is not None:
            self.check(METADATA_FILE)
        elif not file.is_file():
            raise PolicyError("no policy.json here", where=str(self.path), fix="name the folder of a policy artifact")
        try:
            stored = json.loads(file.read_bytes())
            POLICY.check(stored.pop(KEY, None), where=str(file))
            return PolicyMetadata(**stored)
        except (ValueError, TypeError, AttributeError) as cause:
            raise self.damage(METADATA_FILE, f"policy.json cannot be read: {cause}") from cause

    @property
    def has_weights(self) -> bool:
        """Whether the weights are there; `policy.keep` removes those of old rounds."""
        return any((self.path / "model").glob("*.safetensors"))

    @property
    def weights_removed(self) -> bool:
        """Whether `policy.keep` has removed the weights, as opposed to what is lost."""
        return not self.has_weights if self.seal is None else self.seal.weights_removed(self.path.parent)

    def check(self, *parts: str) -> None:
        """Raise DamagedError if files are not those that were stored; `parts` are files and folders, without any all.

        Of a policy without a seal the weights are compared with their hash in `policy.json`.
        """
        if self.seal is not None:
            names = (f"{self.NAME}/{part}" for part in parts or (METADATA_FILE, "model", "tokenizer", OPTIMIZER_FILE))
            self.seal.check(self.path.parent, *names)
        elif not parts or "model" in parts:
            found, expected = hash_weights(self.path / "model"), self.metadata.weights_hash
            if found != expected:
                what = f"the weights have sha256 {found[:12]}, and policy.json says {expected[:12]}"
                raise self.damage("model", what)

    def damage(self, name: str, what: str) -> DamagedError:
        """Return the error that says `what` is wrong with a file of the folder."""
        if self.seal is not None:
            return self.seal.damage(f"{self.NAME}/{name}", what)
        return DamagedError(what, where=str(self.path / name))

    def load_optimizer(self, policy: Policy) -> None:
        """Give the policy's new optimizer the state that was saved with it, if any was.

        Raises DamagedError if the file is not what was stored, is gone, or does not load.
        """
        self.check(OPTIMIZER_FILE)
        file = self.path / OPTIMIZER_FILE
        if policy.optimizer is None or not file.is_file():
            return
        try:
            tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}  # as `align` does
            policy.optimizer.load(tensors, policy.metadata.update)
        except (*LOAD_ERRORS, IndexError) as cause:
            raise self.damage(OPTIMIZER_FILE, f"the optimizer's state does not load: {first_line(cause)}") from cause


def save_policy(policy: Policy, folder: Path, **changes: Any) -> PolicyFolder:
    """Write a policy to the new `folder`, with these `changes` to its metadata, which `policy.metadata` has afterwards.

    Raises StorageError if the disk does not take it.
    """
    with writing("the policy", str(folder)):
        moments = policy.optimizer.tensors() if policy.optimizer is not None else {}
        return _write(policy, folder, changes, None, moments)


def save_sharded_policy(policy: Policy, folder: Path, *, writes: bool, **changes: Any) -> PolicyFolder | None:
    """Write a sharded policy as `save_policy` would write it whole; all its workers must call this together.

    One of them `writes`, and holds whole copies of weights and moments in its machine's memory meanwhile; the others
    get `None`, and keep the metadata that they have.

    Raises StorageError if the disk does not take it.
    """
    kept: dict[str, Tensor] = policy.model.state_dict(keep_vars=True)
    if policy.metadata.kind == "adapter":
        kept = {name: tensor for name, tensor in kept.items() if tensor.requires_grad}
    moments = policy.optimizer.tensors() if policy.optimizer is not None else {}
    copies = whole_copies(kept, keeps=writes), whole_copies(moments, keeps=writes)
    with writing("the policy", str(folder)):
        return _write(policy, folder, changes, *copies) if writes else None


def _write(
    policy: Policy, folder: Path, changes: dict[str, Any], weights: dict[str, Tensor] | None, moments: dict[str, Tensor]
) -> PolicyFolder:
    folder.mkdir(parents=True)
    policy.model.save_pretrained(folder / "model", safe_serialization=True, state_dict=weights)
    (folder / "model" / "README.md").unlink(missing_ok=True)  # peft's empty model card
    if policy.metadata.kind == "adapter":
        policy.model.generation_config.save_pretrained(folder / "model")  # peft leaves it out
    policy.tokenizer.save_pretrained(folder / "tokenizer")
    _leave_process_out(folder)
    if moments:
        tensors = {name: tensor.cpu().contiguous() for name, tensor in moments.items()}
        save_file(tensors, folder / OPTIMIZER_FILE)
    weights_hash = hash_weights(folder / "model")
    metadata = dataclasses.replace(policy.metadata, weights_hash=weights_hash, **changes)
    policy.metadata = dataclasses.replace(metadata, content_hash=_hash_content(folder, metadata))
    stored = {KEY: POLICY.version, **dataclasses.asdict(policy.metadata)}
    (folder / METADATA_FILE).write_text(json.dumps(stored, indent=1))
    return PolicyFolder(folder)


def _leave_process_out(folder: Path) -> None:
    """Take out of settings what depends on the process that saves them, so that a resumed run stores the same bytes.

    A tokenizer says whether it was loaded from a folder, and peft keeps `target_modules` as a set.
    """
    for file in (folder / "tokenizer" / "tokenizer_config.json", folder / "model" / "adapter_config.json"):
        if file.is_file():
            settings = json.loads(file.read_text(encoding="utf-8"))
            kept = _in_order({key: value for key, value in settings.items() if key not in _LOADED})
            file.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _in_order(settings: dict[str, Any]) -> dict[str, Any]:
    modules = settings.get("target_modules")
    return settings | {"target_modules": sorted(modules)} if isinstance(modules, list) else settings


def load_policy(folder: PolicyFolder, device: torch.device) -> Policy:
    """Load a policy without its optimizer, which `load_optimizer` loads when training needs it.

    Raises WeightsRemovedError if `policy.keep` has removed the weights, DamagedError if the folder is not what was
    stored or does not load, and PolicyError if an adapter's base model has changed.
    """
    metadata = folder.metadata
    if folder.weights_removed:
        raise WeightsRemovedError(
            f"the weights of round {metadata.round} were removed by policy.keep",
            where=str(folder.path),
            fix="run again with --no-cache, or keep more rounds (policy.keep.last, policy.keep.every)",
        )
    folder.check("model", "tokenizer")
    base = _load_adapted_base(folder, metadata) if metadata.kind == "adapter" else None
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder.path / "tokenizer")
        if base is None:
            model: Any = AutoModelForCausalLM.from_pretrained(folder.path / "model", dtype=DTYPES[metadata.dtype])
        else:
            model = PeftModel.from_pretrained(base, str(folder.path / "model"), is_trainable=True)
            model.generation_config = GenerationConfig.from_pretrained(folder.path / "model")  # its own end tokens
    except Exception as cause:  # beside LOAD_ERRORS what tokenizers raises, which has no class of its own
        raise folder.damage("model", f"the policy does not load: {first_line(cause)}") from cause
    align(model)
    return Policy(model=model.to(device).eval(), tokenizer=tokenizer, metadata=metadata)


def load_tokenizer(folder: PolicyFolder) -> PreTrainedTokenizerBase:
    """Load a policy's tokenizer alone. Raises DamagedError if it is not what was stored or does not load."""
    folder.check("tokenizer")
    try:
        return AutoTokenizer.from_pretrained(folder.path / "tokenizer")
    except Exception as cause:  # tokenizers raises what has no class of its own
        raise folder.damage("tokenizer", f"the tokenizer does not load: {first_line(cause)}") from cause


def check_base(folder: PolicyFolder) -> None:
    """Raise PolicyError if the base under an adapter is not the one that it was trained on, or is not there."""
    metadata = folder.metadata
    if metadata.kind != "adapter" or not metadata.base_hash:
        return
    name = str(metadata.base_model)
    try:
        found = hash_weights(base_folder(name, metadata.base_revision))
    except OSError as cause:
        raise PolicyError(
            f"the base model {name!r} is not on this machine: {first_line(cause)}",
            where=str(folder.path),
            fix=f"hf download {name} --revision {metadata.base_revision or 'main'}",
        ) from cause
    if found != metadata.base_hash:
        raise PolicyError(
            f"the weights of the base model {name!r} have changed since this adapter was trained on them",
            where=str(folder.path),
            fix="bring the old base back (pin policy.revision for a model of the hub), or train from the new one",
        )


def _load_adapted_base(folder: PolicyFolder, metadata: PolicyMetadata) -> PreTrainedModel:
    base, _ = load_base(str(metadata.base_model), metadata.base_revision, metadata.dtype)
    check_base(folder)
    return base


def _hash_content(folder: Path, metadata: PolicyMetadata) -> str:
    """Return the sha256 of all that a later result depends on.

    Where the base model lies and which version of a library wrote the folder are not part of it.
    """
    identity = [metadata.weights_hash, metadata.update, metadata.kind, metadata.base_hash, metadata.dtype]
    digest = hashlib.sha256(json.dumps(identity).encode())
    settings = [*(folder / "model").glob("*.json"), *(folder / "tokenizer").glob("*_config.json")]
    others = {folder / OPTIMIZER_FILE, *(folder / "tokenizer").glob("*")} - set(settings)
    for file in sorted(settings):
        digest.update(json.dumps([file.name, _plain(json.loads(file.read_text()))], sort_keys=True).encode())
    for file in sorted(file for file in others if file.is_file()):
        digest.update(file.name.encode())
        with file.open("rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings without what depends on where and by what they were written, such as an order in older files."""
    return _in_order({key: value for key, value in settings.items() if key not in _INCIDENTAL})
