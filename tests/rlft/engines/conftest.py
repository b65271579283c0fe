"""How many threads vLLM computes with in these tests."""

import pytest
import torch

from rlft.engines.vllm_engine import vllm_threads


@pytest.fixture(scope="session", autouse=True)
def one_thread_for_vllm():
    """One: with more, what is sampled alone and in a batch differs in the last bit. It is that of its first use."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with vllm_threads():
        pass
    torch.set_num_threads(threads)
