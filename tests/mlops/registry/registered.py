"""A registry with versions that vLLM can serve on a CPU: adapters on one small base, each shown something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from mlflow import MlflowClient

from mlops.registry.client import NamedVersion, find_version
from mlops.registry.logged_model import ServedFiles
from mlops.registry.versions import register_policy_version
from rlft.config import LoraSettings, PolicyConfig
from rlft.evaluation.promotion import Decision
from rlft.models import Policy, save_policy
from rlft.models.origin import create_policy
from rlft.models.tokens import character_tokenizer
from tests.mlflow_stores import new_store
from tests.rlft.engines.vllm_policies import make_vllm_policy

NAME = "small"
_TALKATIVE = (8, 22, 10)  # seeds of adapters that answer with various characters
TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    },
}
# Shows tools, and who says what, in characters that the small model has.
TEMPLATE = (
    "{% if tools %}{% for tool in tools %}[{{ tool.function.name }}]{% endfor %}{% endif %}"
    "{% for message in messages %}{{ message.role }}:{{ message.content }};{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def write_base(folder: Path) -> Path:
    """A base model with a tokenizer."""
    policy = make_vllm_policy("qwen3", tie_word_embeddings=True)
    policy.model.save_pretrained(folder)
    # A token for each character of ASCII that can be seen: with the three of its own as many as the model has.
    character_tokenizer("".join(map(chr, range(32, 127)))).save_pretrained(folder)
    return folder


def adapter_on(base: Path, seed: int, template: str | None = TEMPLATE, rank: int = 4) -> Policy:
    """A policy whose adapter is no zeros."""
    settings = PolicyConfig(model=str(base), device="cpu", lora=LoraSettings(rank=rank, alpha=8))
    policy = create_policy(settings, seed=0)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.3)
    policy.tokenizer.chat_template = template
    return policy


class Registered:
    """Versions of one name in a registry in a folder, with the live policies that they were made of."""

    def __init__(self, folder: Path, address: str | None = None) -> None:
        self.folder = folder
        self.client = MlflowClient(address or new_store(folder))
        location = None if address else f"file:{folder}/mlflow-artifacts"
        self.experiment = self.client.create_experiment(NAME, artifact_location=location)
        self.base = write_base(folder / "base")
        self.policies: dict[str, Policy] = {}

    def add(self, *, promote: bool = True, context: dict[str, Any] | None = None, **options: Any) -> str:
        """Register another version; returns its number."""
        seed = len(self.policies) + 1  # the place of the version
        policy = adapter_on(self.base, _TALKATIVE[seed - 1], **options)
        saved = save_policy(policy, self.folder / f"policy-{seed}")
        shown = (
            {"system_prompt": f"Be {seed}.", "tools": [TOOL], "tool_format": "hermes"} if context is None else context
        )
        done = register_policy_version(
            self.client.tracking_uri,
            self.client.create_run(self.experiment).info.run_id,
            NAME,
            ServedFiles(saved.path, {"context.json": json.dumps(shown)}),
            Decision(promote, ("passes: base",) if promote else ("fails: base",)),
        )
        self.policies[done.version] = policy
        return done.version

    def promote(self, version: str) -> None:
        """Let the alias name a version, as a promotion or a rollback does."""
        self.client.set_registered_model_alias(NAME, "champion", version)

    def find(self, version: str) -> NamedVersion:
        """A version by its number."""
        return find_version(self.client.tracking_uri, NAME, None, version)
