"""A policy on disk and in memory.

    policy.json            what it is: base model, revision, hashes, round, parent
    model/                 all weights, or the adapter (safetensors)
    tokenizer/
    optimizer.safetensors  first and second moments, by parameter name; absent before the first update

Nothing is pickled. Loading a folder gives the same bytes in every process, so a step may start warm or cold.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from rlft.errors import PolicyError
from rlft.policy.origin import DTYPES, hash_weights, load_base

METADATA_FILE = "policy.json"
OPTIMIZER_FILE = "optimizer.safetensors"
MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True, slots=True)
class PolicyMetadata:
    """What `policy.json` says.

    `update` counts optimizer steps since the optimizer was new. `weights_hash` identifies the weights alone,
    `content_hash` also the optimizer state and the tokenizer: all that a later result depends on.
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
    """A policy as an artifact: the folder that holds it."""

    path: Path

    @property
    def metadata(self) -> PolicyMetadata:
        """Contents of `policy.json`. Raises PolicyError when the folder holds no policy."""
        file = self.path / METADATA_FILE
        if not file.is_file():
            raise PolicyError("no policy.json here", where=str(self.path), fix="name the folder of a policy artifact")
        return PolicyMetadata(**json.loads(file.read_text()))

    @property
    def has_weights(self) -> bool:
        """False once retention has removed the weights of an old round."""
        return any((self.path / "model").glob("*.safetensors"))

    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())


@dataclass
class Policy:
    """A live policy: model, tokenizer and, once it has been trained, its optimizer. The trainer changes it in place."""

    model: Any
    tokenizer: PreTrainedTokenizerBase
    metadata: PolicyMetadata
    optimizer: torch.optim.AdamW | None = None

    @property
    def device(self) -> torch.device:
        """Where the model's parameters are."""
        return next(self.model.parameters()).device

    def trainable(self) -> dict[str, torch.nn.Parameter]:
        """Parameters that training changes, by name."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def stop_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a completion, from the generation config, else the tokenizer's end token."""
        configured = self.model.generation_config.eos_token_id
        if configured is None:
            configured = self.tokenizer.eos_token_id
        return tuple(configured) if isinstance(configured, list) else (int(configured),)


def save_policy(policy: Policy, folder: Path, **changes: Any) -> PolicyFolder:
    """Write a policy to `folder` (made new), with `changes` to its metadata; updates `policy.metadata` as well."""
    folder.mkdir(parents=True)
    policy.model.save_pretrained(folder / "model", safe_serialization=True)
    (folder / "model" / "README.md").unlink(missing_ok=True)  # peft's empty model card
    if policy.metadata.kind == "adapter":
        policy.model.generation_config.save_pretrained(folder / "model")
    policy.tokenizer.save_pretrained(folder / "tokenizer")
    if policy.optimizer is not None and (moments := _moments(policy)):
        save_file(moments, folder / OPTIMIZER_FILE)
    weights_hash = hash_weights(folder / "model")
    content_hash = _hash_content(folder, weights_hash, policy.metadata.update)
    policy.metadata = dataclasses.replace(
        policy.metadata, weights_hash=weights_hash, content_hash=content_hash, **changes
    )
    (folder / METADATA_FILE).write_text(json.dumps(dataclasses.asdict(policy.metadata), indent=1))
    return PolicyFolder(folder)


def load_policy(folder: PolicyFolder, device: torch.device) -> Policy:
    """Load a policy cold. The optimizer comes with the first training step, from `load_moments`."""
    metadata = folder.metadata
    if not folder.has_weights:
        raise PolicyError(
            f"the weights of round {metadata.round} were removed by policy.keep",
            where=str(folder.path),
            fix="run again with --no-cache, or keep more rounds (policy.keep.last, policy.keep.every)",
        )
    tokenizer = AutoTokenizer.from_pretrained(folder.path / "tokenizer")
    if metadata.kind == "full":
        model: Any = AutoModelForCausalLM.from_pretrained(folder.path / "model", dtype=DTYPES[metadata.dtype])
    else:
        base, _ = load_base(str(metadata.base_model), metadata.base_revision, metadata.dtype)
        model = PeftModel.from_pretrained(base, str(folder.path / "model"), is_trainable=True)
    return Policy(model=model.to(device).eval(), tokenizer=tokenizer, metadata=metadata)


def _hash_content(folder: Path, weights_hash: str, update: int) -> str:
    digest = hashlib.sha256(f"{weights_hash} {update}".encode())
    for file in [folder / OPTIMIZER_FILE, *sorted((folder / "tokenizer").glob("*"))]:
        if file.is_file():
            digest.update(file.name.encode())
            with file.open("rb") as content:
                while block := content.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()


def _moments(policy: Policy) -> dict[str, torch.Tensor]:
    """Optimizer state by parameter name; AdamW's step counter is the policy's `update`."""
    assert policy.optimizer is not None
    state = policy.optimizer.state
    return {
        f"{name}.{moment}": state[p][moment].detach().cpu().contiguous()
        for name, p in policy.trainable().items()
        if p in state
        for moment in MOMENTS
    }


def load_moments(policy: Policy, folder: PolicyFolder) -> None:
    """Give the policy's new optimizer the state that was saved with it, if any was."""
    file = folder.path / OPTIMIZER_FILE
    if policy.optimizer is None or not file.is_file():
        return
    saved = load_file(file, device=str(policy.device))
    for name, parameter in policy.trainable().items():
        if f"{name}.{MOMENTS[0]}" in saved:
            state = {moment: saved[f"{name}.{moment}"] for moment in MOMENTS}
            policy.optimizer.state[parameter] = {"step": torch.tensor(float(policy.metadata.update)), **state}
