"""Makes the order of servers that sample from a given policy, which any machine can start."""

from __future__ import annotations

from pathlib import Path

from rlft.config import EngineSettings
from rlft.engines.guard import Guard
from rlft.engines.ordered import Order
from rlft.engines.server_weights import write_checkpoint
from rlft.engines.serving import sampling_options
from rlft.engines.vllm_adapter import rank_for
from rlft.engines.vllm_process import model_config
from rlft.policy import Policy
from rlft.temporary import writing


def order_for(policy: Policy, settings: EngineSettings, batch_size: int, folder: Path) -> Order:
    """Return the order of a server that samples `batch_size` completions of a policy at a time.

    It starts with the base of an adapter, and else with the policy's weights, which are written to `folder` and must be
    there until the server answers. Weights are for the client to push all the same. Raises StorageError, and
    PolicyError if the config of the base does not load.
    """
    known, parallel, on_gpu = policy.metadata, settings.server.tensor_parallel_size, policy.device.type == "cuda"
    # From random weights (`--load-format dummy`) vLLM would start as well, but refuse to read others from a folder.
    model, revision, rank, more = str(folder), None, None, list[str]()
    if known.kind == "adapter":
        assert known.base_model is not None, "the config refuses adapters on random weights"
        model, revision, rank = known.base_model, known.base_revision, rank_for(policy)
    else:
        with writing("weights for the engine", str(folder)):
            write_checkpoint(policy, folder)
            model_config(policy).save_pretrained(folder)
            policy.tokenizer.save_pretrained(folder)
    options, variables = sampling_options(
        settings, model, revision, dtype=known.dtype, rank=rank, batch_size=batch_size, on_gpu=on_gpu
    )
    if parallel > 1:
        # Else vLLM may take Ray for that, which it finds installed.
        more += ["--tensor-parallel-size", str(parallel), "--distributed-executor-backend", "mp"]
    more += ["--middleware", f"{Guard.__module__}.{Guard.__qualname__}"]
    return Order((*options, *more), variables, on_gpu)
