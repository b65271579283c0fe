"""The small real model with an adapter that changes its answers, as a stored policy."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from rlft.config import LoraSettings, PolicyConfig
from rlft.models import Policy, PolicyFolder, save_policy
from rlft.models.origin import create_policy

CARD, CONTEXT = "---\nbase_model: stories\n---\n# A card\n", '{"system_prompt": "Tell a story.", "tools": []}'
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def stories_policy(
    base: Path, *, dtype: str = "float32", lora: bool = True, layers: str | list[str] = "all-linear"
) -> Policy:
    """A policy of the small real model; its adapter, on these layers, has weights that are no zeros."""
    adapter = LoraSettings(rank=4, alpha=8, target_modules=layers) if lora else None
    policy = create_policy(PolicyConfig(model=str(base), dtype=dtype, device="cpu", lora=adapter), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name or "embedding_A" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)
    policy.tokenizer.chat_template = TEMPLATE
    return policy


def stored(policy: Policy, folder: Path) -> PolicyFolder:
    """The policy in a folder, with a card and a context beside it."""
    saved = save_policy(policy, folder)
    (folder / "README.md").write_text(CARD)
    (folder / "context.json").write_text(CONTEXT)
    return saved


def copied_base(base: Path, folder: Path, dtype: torch.dtype | None = None) -> Path:
    """A copy of a base model that may be changed, in another data type if one is given."""
    shutil.copytree(base, folder, copy_function=shutil.copyfile)
    folder.chmod(0o755)
    if dtype is not None:
        from transformers import AutoModelForCausalLM

        AutoModelForCausalLM.from_pretrained(base, dtype=dtype).save_pretrained(folder)
    return folder
