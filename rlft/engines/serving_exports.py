"""Makes the command that starts `vllm serve` for an exported policy (`rlft.export`), to answer people with."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from rlft.engines.ordered import SERVER
from rlft.engines.serving import context_of, on_cpu
from rlft.engines.vllm_adapter import rank_that_holds
from rlft.policy.origin import choose_device

PLAIN = "plain_chat.jinja"
_CPU_CACHE = 1 << 30  # bytes of keys and values on a CPU
_CPU_SEQUENCES = 64  # requests that are answered side by side on a CPU


def serve_export_command(
    folder: Path, *, model: str, port: int, dtype: str, adapters: int = 1, extra: Sequence[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Return the command that serves an export as `model` on a port of loopback, and the variables that it needs.

    `dtype` is the type of a policy that was trained with an adapter; weights that are all in the export have their own.
    vLLM would compute float32 weights in half precision, so both are named to it. With more than one of `adapters`,
    others can be loaded and unloaded while it runs: whoever has its key can do that. `extra` options come last, so that
    they count. Without a chat template in the export one is written into it that
    joins messages as training did (`rlft.policy.tokens.render_prompt`). Raises PolicyError if the model's config does
    not load.
    """
    adapter = folder / "adapter_config.json"
    settings: dict[str, Any] = json.loads(adapter.read_text(encoding="utf-8")) if adapter.is_file() else {}
    base, revision = settings.get("base_model_name_or_path") or str(folder), settings.get("revision")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    command = [sys.executable, "-m", SERVER, "--model", base, "--host", "127.0.0.1", "--port", str(port)]
    command += ["--dtype", dtype if settings else dtype_of(folder), *(["--revision", revision] if revision else [])]
    variables = {"VLLM_NO_USAGE_STATS": "1"}
    if settings:
        command += ["--tokenizer", str(folder), "--generation-config", str(folder), "--enable-lora"]
        command += ["--max-lora-rank", str(rank_that_holds(settings["r"])), "--max-loras", str(adapters)]
        command += ["--lora-modules", json.dumps({"name": model, "path": str(folder)})]
        if adapters > 1:
            variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    else:
        command += ["--served-model-name", model]
    if not tokenizer.chat_template:
        (folder / PLAIN).write_text(plain_template(tokenizer), encoding="utf-8")
        command += ["--chat-template", str(folder / PLAIN)]
    if choose_device("auto").type != "cuda":
        context = context_of(base, revision, "the export")
        options, more = on_cpu(context, cache_bytes=_CPU_CACHE, sequences=_CPU_SEQUENCES)
        command, variables = command + options, variables | more
    return [*command, *extra], variables


def dtype_of(folder: Path) -> str:
    """Return the data type of exported weights, as their config says it; `auto` where it does not."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return str(config.get("dtype") or config.get("torch_dtype") or "auto")


def plain_template(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return a chat template that joins the contents of messages with newlines, for a model that continues text."""
    ids = tokenizer("a").input_ids
    begins = tokenizer.bos_token_id is not None and ids[:1] == [tokenizer.bos_token_id]
    joined = (
        "{% for message in messages %}{{ message['content'] }}{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}"
    )
    return ("{{ bos_token }}" if begins else "") + joined
