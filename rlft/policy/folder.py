"""A policy in memory (`Policy`) and on disk (`PolicyFolder`), which is a folder with:

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
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from rlft.attention.support import shares_prompts
from rlft.errors import PolicyError, WeightsRemovedError
from rlft.head.split import SplitModel, split_model
from rlft.policy.fused import Replacement, find_fusible
from rlft.policy.optimizer import Optimizer
from rlft.policy.origin import DTYPES, LOAD_ERRORS, base_folder, first_line, hash_weights, load_base
from rlft.temporary import writing

METADATA_FILE = "policy.json"
OPTIMIZER_FILE = "optimizer.safetensors"
_INCIDENTAL = {  # entries of config files that do not change what a policy does, and are left out of `content_hash`
    "_name_or_path",
    "base_model_name_or_path",
    "inference_mode",
    "is_local",
    "local_files_only",
    "name_or_path",
    "peft_version",
    "revision",
    "transformers_version",
}


@dataclass(frozen=True, slots=True)
class PolicyMetadata:
    """Holds what `policy.json` says.

    `base_model`, `base_revision` and `base_hash` (of its weights) say which model the policy was made from; all are
    `None` for one from scratch. `dtype` is the weights' type, such as `bfloat16`. `update` counts optimizer steps since
    the optimizer was new. `parent` and `stage` say which policy it was trained from, and by which stage of a run.
    `weights_hash` identifies the weights alone, `content_hash` also the optimizer state, the tokenizer, the settings of
    model and adapter and the base under it: all that a later result depends on.
    """

    kind: Literal["full", "adapter"]
    base_model: str | None
    base_revision: str | None
    base_hash: str | None
    dtype: str
    round: int = 0
    update: int = 0
    parent: str | None = None
    stage: str = "base"
    weights_hash: str = ""
    content_hash: str = ""


@dataclass(frozen=True, slots=True)
class PolicyFolder:
    """Names a policy on disk, as an artifact, by the path of the folder that holds it."""

    path: Path

    @property
    def metadata(self) -> PolicyMetadata:
        """The contents of `policy.json`. Raises PolicyError if there is none, or if it cannot be read."""
        file = self.path / METADATA_FILE
        if not file.is_file():
            raise PolicyError("no policy.json here", where=str(self.path), fix="name the folder of a policy artifact")
        try:
            return PolicyMetadata(**json.loads(file.read_text()))
        except (ValueError, TypeError) as cause:
            raise PolicyError(
                f"policy.json cannot be read: {cause}",
                where=str(self.path),
                fix="run again with --no-cache: this artifact was not written whole, or by another version of rlft",
            ) from cause

    @property
    def has_weights(self) -> bool:
        """Whether the weights are there; `policy.keep` removes those of old rounds."""
        return any((self.path / "model").glob("*.safetensors"))

    def size(self) -> int:
        """Return how many bytes the folder takes on disk."""
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())


@dataclass
class Policy:
    """Holds a live policy: model, tokenizer and, once it is trained, its optimizer. The trainer changes it in place.

    Code that changes the weights must call `note_change`, so that `identity` changes with them; `changes` counts that.
    """

    model: Any
    tokenizer: PreTrainedTokenizerBase
    metadata: PolicyMetadata
    optimizer: Optimizer | None = None
    changes: int = 0

    @property
    def device(self) -> torch.device:
        """The device that the model's parameters are on."""
        return next(self.model.parameters()).device

    @property
    def context_length(self) -> int | None:
        """The most tokens that the model can read at once; `None` where its config does not say."""
        return getattr(self.model.config, "max_position_embeddings", None)

    @cached_property
    def split(self) -> SplitModel:
        """The model as backbone and head, taken apart at the first use."""
        return split_model(self.model)

    @cached_property
    def shares_prompts(self) -> bool:
        """Whether the model can encode a prompt once for several completions, tried out at the first use."""
        return shares_prompts(self.model)

    @cached_property
    def fusible(self) -> list[Replacement]:
        """The operations that `rlft.policy.fused` can compute faster, tried out at the first use."""
        return find_fusible(self.model)

    def find_out(self) -> None:
        """Compute `split`, `shares_prompts` and `fusible` now: each runs the model, which must be unchanged for that.

        Otherwise their first use might be inside `fused` or `attending`, which replace parts of the model.
        """
        _ = self.split, self.shares_prompts, self.fusible

    @property
    def identity(self) -> str:
        """The label of rollouts: the weights' hash, or the number of changes if they were not saved since."""
        return self.metadata.weights_hash or f"unsaved after {self.changes} updates"

    def note_change(self, *, update: int) -> None:
        """Note that the weights have changed, which voids their hashes, after `update` steps of the optimizer."""
        self.metadata = dataclasses.replace(self.metadata, update=update, weights_hash="", content_hash="")
        self.changes += 1

    def trainable(self) -> dict[str, torch.nn.Parameter]:
        """Return the parameters that training changes, by name."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def stop_token_ids(self) -> tuple[int, ...]:
        """Return the tokens that end a completion: the generation config's, else the tokenizer's end token, if any."""
        configured: Any = self.model.generation_config.eos_token_id
        if configured is None:
            configured = self.tokenizer.eos_token_id
        if configured is None:
            return ()
        return tuple(configured) if isinstance(configured, list) else (int(configured),)


def save_policy(policy: Policy, folder: Path, **changes: Any) -> PolicyFolder:
    """Write a policy to the new `folder`, with these `changes` to its metadata, which `policy.metadata` has afterwards.

    Raises StorageError if the disk does not take it.
    """
    with writing("the policy", str(folder)):
        return _write(policy, folder, changes)


def _write(policy: Policy, folder: Path, changes: dict[str, Any]) -> PolicyFolder:
    folder.mkdir(parents=True)
    policy.model.save_pretrained(folder / "model", safe_serialization=True)
    (folder / "model" / "README.md").unlink(missing_ok=True)  # peft's empty model card
    if policy.metadata.kind == "adapter":
        policy.model.generation_config.save_pretrained(folder / "model")  # peft leaves it out
    policy.tokenizer.save_pretrained(folder / "tokenizer")
    if policy.optimizer is not None and (tensors := policy.optimizer.tensors()):
        save_file(tensors, folder / OPTIMIZER_FILE)
    weights_hash = hash_weights(folder / "model")
    metadata = dataclasses.replace(policy.metadata, weights_hash=weights_hash, **changes)
    policy.metadata = dataclasses.replace(metadata, content_hash=_hash_content(folder, metadata))
    (folder / METADATA_FILE).write_text(json.dumps(dataclasses.asdict(policy.metadata), indent=1))
    return PolicyFolder(folder)


def load_policy(folder: PolicyFolder, device: torch.device) -> Policy:
    """Load a policy without its optimizer, which `load_optimizer` loads when training needs it.

    Raises WeightsRemovedError if `policy.keep` has removed the weights, and PolicyError if the folder does not load or
    if an adapter's base model has changed.
    """
    metadata = folder.metadata
    if not folder.has_weights:
        raise WeightsRemovedError(
            f"the weights of round {metadata.round} were removed by policy.keep",
            where=str(folder.path),
            fix="run again with --no-cache, or keep more rounds (policy.keep.last, policy.keep.every)",
        )
    base = _load_adapted_base(folder, metadata) if metadata.kind == "adapter" else None
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder.path / "tokenizer")
        if base is None:
            model: Any = AutoModelForCausalLM.from_pretrained(folder.path / "model", dtype=DTYPES[metadata.dtype])
        else:
            model = PeftModel.from_pretrained(base, str(folder.path / "model"), is_trainable=True)
    except LOAD_ERRORS as cause:
        raise PolicyError(
            f"the policy does not load: {first_line(cause)}",
            where=str(folder.path),
            fix="run again with --no-cache: this artifact was not written whole, or has been changed",
        ) from cause
    return Policy(model=model.to(device).eval(), tokenizer=tokenizer, metadata=metadata)


def _load_adapted_base(folder: PolicyFolder, metadata: PolicyMetadata) -> PreTrainedModel:
    name = str(metadata.base_model)
    base, _ = load_base(name, metadata.base_revision, metadata.dtype)
    if metadata.base_hash and hash_weights(base_folder(name, metadata.base_revision)) != metadata.base_hash:
        raise PolicyError(
            f"the weights of the base model {name!r} have changed since this adapter was trained on them",
            where=str(folder.path),
            fix="bring the old base back (pin policy.revision for a model of the hub), or train from the new one",
        )
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
    """Return settings without what depends on where and by what they were written.

    peft keeps `target_modules` as a set, so its order in the file differs from process to process.
    """
    kept = {key: value for key, value in settings.items() if key not in _INCIDENTAL}
    if isinstance(kept.get("target_modules"), list):
        kept["target_modules"] = sorted(kept["target_modules"])
    return kept


def load_optimizer(policy: Policy, folder: PolicyFolder) -> None:
    """Give the policy's new optimizer the state that was saved with it, if any was."""
    file = folder.path / OPTIMIZER_FILE
    if policy.optimizer is not None and file.is_file():
        policy.optimizer.load(load_file(file), policy.metadata.update)
