"""Makes the command that starts `vllm serve` in such a way that `VllmServerEngine` can work with it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from transformers import AutoConfig

from rlft.config import Config, EngineSettings
from rlft.cores import cores_here
from rlft.engines.ordered import SERVER
from rlft.engines.vllm_adapter import rank_that_holds
from rlft.engines.vllm_process import CPU_BATCH_TOKENS, is_installed
from rlft.errors import EngineError, PolicyError
from rlft.policy.create import create_policy
from rlft.policy.origin import LOAD_ERRORS, choose_device, first_line

# vLLM binds its threads to some cores and waits on others by spinning, so on few cores they wait for each other. On at
# most so many cores its threads are not bound, and there is one less of them than cores.
FEW_CORES = 4
_LOCAL = ("127.0.0.1", "::1", "localhost")


def serve_command(
    config: Config, folder: Path, *, host: str = "127.0.0.1", port: int = 8000, extra: Sequence[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment variables that it needs.

    The base of a model from scratch is written to `folder`. `extra` options are passed to `vllm serve` as they are.

    Raises EngineError without vLLM, for an address among `extra`, and for full weights on another host than this one:
    the routes that reload them would let anyone who reaches them run code there. Raises PolicyError if the model's
    config does not load.
    """
    if not is_installed():
        raise EngineError("vLLM is not installed", fix="make setup-vllm")
    if given := [option for option in extra if option.split("=")[0] in ("--host", "--port", "--uds")]:
        fix = "give --host and --port before the other options"
        raise EngineError(f"{given[0]} is not passed on", where="serve-engine", fix=fix)
    lora = config.policy.lora
    if lora is None and host not in _LOCAL:
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
    options, variables = sampling_options(
        config.rollout,
        model,
        config.policy.revision,
        dtype=config.policy.dtype,
        rank=None if lora is None else lora.rank,
        batch_size=config.rollout.batch_size,
        on_gpu=on_gpu,
    )
    command = [sys.executable, "-m", SERVER, "--host", host, "--port", str(port), *options]
    return [*command, *extra], variables


def sampling_options(
    settings: EngineSettings,
    model: str,
    revision: str | None,
    *,
    dtype: str,
    rank: int | None,
    batch_size: int,
    on_gpu: bool,
) -> tuple[list[str], dict[str, str]]:
    """Return the options of a server that samples from a policy, wherever it listens, and its variables.

    `rank` is that of the policy's adapter; `None` for full weights. Raises as `context_of` does.
    """
    own = settings.vllm
    options = ["--model", model, "--dtype", dtype]
    options += ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm", "--enable-scale-out"]
    if revision is not None:
        options += ["--revision", revision]
    if own.max_model_len is not None:
        options += ["--max-model-len", str(own.max_model_len)]
    if on_gpu:
        options += ["--gpu-memory-utilization", str(own.gpu_memory_utilization)]
        options += ["--max-num-seqs", str(batch_size)]
        variables = {"VLLM_NO_USAGE_STATS": "1"}
    else:
        context = own.max_model_len or context_of(model, revision)
        more, variables = on_cpu(context, cache_bytes=int(own.cache_gib * 2**30), sequences=batch_size)
        options += more
    if rank is not None:
        variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
        options += ["--enable-lora", "--max-lora-rank", str(rank_that_holds(rank)), "--max-loras", "2"]
    else:
        variables["VLLM_SERVER_DEV_MODE"] = "1"  # it has the routes that reload weights and empty the prefix cache
        if settings.server.weight_transfer == "nccl":
            options += ["--weight-transfer-config", '{"backend": "nccl"}']
    return options, variables


def on_cpu(context: int, *, cache_bytes: int, sequences: int) -> tuple[list[str], dict[str, str]]:
    """Return the options and variables of a vLLM on a CPU, for the reasons in `vllm_process._cpu_options`.

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
