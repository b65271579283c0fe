"""Makes commands that start `vllm serve`: for `VllmServerEngine`, for an export that answers people, or for a judge."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from rlft.config import Config
from rlft.engines.kinds.vllm import Vllm
from rlft.engines.server_process import SERVER
from rlft.engines.vllm_engine import CPU_BATCH_TOKENS
from rlft.environments.workers.pool import cores_here
from rlft.errors import EngineError, PolicyError
from rlft.models.origin import LOAD_ERRORS, choose_device, create_policy, first_line

# vLLM binds its threads to some cores and waits on others by spinning, so on few cores they wait for each other. On at
# most so many cores its threads are not bound, and there is one less of them than cores.
FEW_CORES = 4
_LOCAL = ("127.0.0.1", "::1", "localhost")
_CPU_CACHE = 1 << 30  # bytes of keys and values on a CPU
_CPU_SEQUENCES = 64  # requests that are answered side by side on a CPU
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # vLLM takes these only; a smaller adapter fits a larger one


def rank_that_holds(rank: int) -> int:
    """Return the smallest rank that vLLM takes and an adapter of this `rank` fits; a larger one than all as it is."""
    return next((size for size in _RANKS if size >= rank), rank)


def serve_command(
    config: Config, folder: Path, *, host: str = "127.0.0.1", port: int = 8000, extra: Sequence[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment variables that it needs.

    The base of a model from scratch is written to `folder`. `extra` options are passed to `vllm serve` as they are.

    Raises EngineError without vLLM, for an address among `extra`, and for full weights on another host than this one:
    the routes that reload them would let anyone who reaches them run code there. Raises PolicyError if the model's
    config does not load.
    """
    Vllm().check_library()
    if given := [option for option in extra if option.split("=")[0] in ("--host", "--port", "--uds")]:
        fix = "give --host and --port before the other options"
        raise EngineError(f"{given[0]} is not passed on", where="serve-engine", fix=fix)
    if config.policy.lora is None and host not in _LOCAL:
        raise EngineError(
            f"full weights are only pushed to a server on loopback, not on {host}",
            fix="train an adapter (policy.lora), or serve on 127.0.0.1",
        )
    on_gpu = choose_device(config.policy.device).type == "cuda"
    model = config.policy.model
    if model is None:
        policy = create_policy(config.policy, seed=config.seed)
        policy.model.save_pretrained(folder, safe_serialization=True)
        policy.tokenizer.save_pretrained(folder)
        model = str(folder)
    options, variables = _sampling_options(config, model, on_gpu=on_gpu)
    command = [sys.executable, "-m", SERVER, "--host", host, "--port", str(port), *options]
    return [*command, *extra], variables


def _sampling_options(config: Config, model: str, *, on_gpu: bool) -> tuple[list[str], dict[str, str]]:
    """Return the options and variables of a server that samples from a model or an adapter of it."""
    own, revision, lora = config.rollout.vllm, config.policy.revision, config.policy.lora
    options = ["--model", model, "--dtype", config.policy.dtype]
    options += ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm", "--enable-scale-out"]
    if revision is not None:
        options += ["--revision", revision]
    if own.max_model_len is not None:
        options += ["--max-model-len", str(own.max_model_len)]
    if on_gpu:
        options += ["--gpu-memory-utilization", str(own.gpu_memory_utilization)]
        options += ["--max-num-seqs", str(config.rollout.batch_size)]
        variables = {"VLLM_NO_USAGE_STATS": "1"}
    else:
        context = own.max_model_len or context_of(model, revision)
        cache = int(own.cache_gib * 2**30)
        more, variables = on_cpu(context, cache_bytes=cache, sequences=config.rollout.batch_size)
        options += more
    if lora is not None:
        variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
        options += ["--enable-lora", "--max-lora-rank", str(rank_that_holds(lora.rank)), "--max-loras", "2"]
    else:
        variables["VLLM_SERVER_DEV_MODE"] = "1"  # it has the routes that reload weights and empty the prefix cache
    return options, variables


def on_cpu(context: int, *, cache_bytes: int, sequences: int) -> tuple[list[str], dict[str, str]]:
    """Return the options and variables of a vLLM on a CPU, for the reasons in `vllm_engine._cpu_options`.

    `context` is the most tokens of a sequence, `cache_bytes` the memory for keys and values, and `sequences` how many
    requests are answered side by side.
    """
    room = max(CPU_BATCH_TOKENS, context, sequences)
    options = ["--enforce-eager", "--kv-cache-memory-bytes", str(cache_bytes), "--max-num-seqs", str(sequences)]
    options += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", str(room)]
    cores = cores_here()
    few = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": str(max(cores - 1, 1))}
    return options, {"VLLM_NO_USAGE_STATS": "1"} | (few if cores <= FEW_CORES else {})


def context_of(model: str, revision: str | None, where: str = "policy.model") -> int:
    """Return the most tokens that the model can read, as its config says.

    Raises PolicyError if that does not load; `where` is the setting that names the model.
    """
    try:
        return AutoConfig.from_pretrained(model, revision=revision).get_text_config().max_position_embeddings
    except LOAD_ERRORS as cause:
        raise PolicyError(f"the config of {model!r} does not load: {first_line(cause)}", fix=f"mend {where}") from cause


def serve_export_command(
    folder: Path, *, model: str, port: int, dtype: str, extra: Sequence[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Return the command that serves an export as `model` on a port of loopback, and the variables that it needs.

    `dtype` is the type of a policy that was trained with an adapter; weights that are all in the export have their own.
    vLLM would compute float32 weights in half precision, so both are named to it. `extra` options come last, so that
    they count. Without a chat template in the export one is written into it that joins messages as training did
    (`rlft.models.tokens.render_prompt`). Raises PolicyError if the model's config does not load.
    """
    adapter = folder / "adapter_config.json"
    settings: dict[str, Any] = json.loads(adapter.read_text(encoding="utf-8")) if adapter.is_file() else {}
    base, revision = settings.get("base_model_name_or_path") or str(folder), settings.get("revision")
    command = [sys.executable, "-m", SERVER, "--model", base, "--host", "127.0.0.1", "--port", str(port)]
    command += ["--dtype", dtype if settings else dtype_of(folder), *(["--revision", revision] if revision else [])]
    variables = {"VLLM_NO_USAGE_STATS": "1"}
    if settings:
        command += ["--tokenizer", str(folder), "--generation-config", str(folder), "--enable-lora"]
        command += ["--max-lora-rank", str(rank_that_holds(settings["r"]))]
        command += ["--lora-modules", json.dumps({"name": model, "path": str(folder)})]
    else:
        command += ["--served-model-name", model]
    command += _chat_template(AutoTokenizer.from_pretrained(folder), folder)
    if choose_device("auto").type != "cuda":
        context = context_of(base, revision, "the export")
        options, more = on_cpu(context, cache_bytes=_CPU_CACHE, sequences=_CPU_SEQUENCES)
        command, variables = command + options, variables | more
    return [*command, *extra], variables


def dtype_of(folder: Path) -> str:
    """Return the data type of exported weights, as their config says it; `auto` where it does not."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return str(config.get("dtype") or config.get("torch_dtype") or "auto")


def _chat_template(tokenizer: PreTrainedTokenizerBase, folder: Path) -> list[str]:
    """Return options that give a model that continues text a template, written to `folder`, which joins by newlines."""
    if tokenizer.chat_template:
        return []
    ids, template = tokenizer("a").input_ids, folder / "plain_chat.jinja"
    begins = tokenizer.bos_token_id is not None and ids[:1] == [tokenizer.bos_token_id]
    joined = (
        "{% for message in messages %}{{ message['content'] }}{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}"
    )
    template.write_text(("{{ bos_token }}" if begins else "") + joined, encoding="utf-8")
    return ["--chat-template", str(template)]
