"""Makes the command that starts `vllm serve` for a judge, beside the engine that samples from the policy."""

from __future__ import annotations

import sys
from pathlib import Path

from transformers import AutoTokenizer

from rlft.engines.ordered import SERVER
from rlft.engines.serving import context_of, on_cpu
from rlft.engines.serving_exports import PLAIN, plain_template
from rlft.policy.origin import choose_device
from rlft.specification.judge import JudgeSettings

_WHERE = "reward.spec: judge.model"


def serve_judge_command(
    settings: JudgeSettings, revision: str | None, folder: Path, *, port: int
) -> tuple[list[str], dict[str, str]]:
    """Return the command that serves the model of a judge on a port of loopback, and the variables that it needs.

    `revision` is the commit of a model of the hub. A model without a chat template gets one in `folder` that joins
    messages by newlines. Its memory is bounded by `judge.vllm`. Raises PolicyError if the model's config does not load.
    """
    own, model = settings.started, settings.model
    context = own.max_model_len or context_of(model, revision, _WHERE)
    command = [sys.executable, "-m", SERVER, "--model", model, "--served-model-name", model, "--dtype", own.dtype]
    command += ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", str(context)]
    command += ["--revision", revision] if revision else []
    tokenizer = AutoTokenizer.from_pretrained(model, revision=revision)
    if not tokenizer.chat_template:
        (folder / PLAIN).write_text(plain_template(tokenizer), encoding="utf-8")
        command += ["--chat-template", str(folder / PLAIN)]
    if choose_device("auto").type != "cuda":
        options, variables = on_cpu(context, cache_bytes=int(own.cache_gib * 2**30), sequences=settings.concurrency)
        return [*command, *options], variables
    command += ["--gpu-memory-utilization", str(own.gpu_memory_utilization)]
    return [*command, "--max-num-seqs", str(settings.concurrency)], {"VLLM_NO_USAGE_STATS": "1"}
