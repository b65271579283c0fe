"""Two real `vllm serve` processes, one of which is killed in a round: the tokens are those of a round without that."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

from rlft.engines.base import Sampling, derive_seed
from rlft.engines.vllm_server import VllmServerEngine
from rlft.policy import save_policy
from rlft.policy.origin import create_policy
from tests.needs import need_vllm
from tests.rlft.engines.test_vllm_server_real import STARTED_WITHIN, running, start_server
from tests.rlft.engines.vllm_policies import make_vllm_policy

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]

PROMPTS = [[5 + group, 6, 7] for group in range(8) for _ in range(16)]
SEEDS = [derive_seed("test", place) for place in range(len(PROMPTS))]


@pytest.fixture
def two(tmp_path):
    """Two servers for adapters of one model, and the model."""
    need_vllm()
    policy = make_vllm_policy(tie_word_embeddings=True)
    base = save_policy(policy, tmp_path / "base").path / "model"
    policy.tokenizer.save_pretrained(base)
    started = []
    try:
        for name in "ab":
            (tmp_path / name).mkdir()
            started.append(start_server(tmp_path / name, "lora", base))
        deadline = time.monotonic() + STARTED_WITHIN
        for server in started:
            server.wait_until_healthy(deadline)
        yield started
    finally:
        for server in started:
            server.stop()


def test_the_rollouts_of_a_killed_server_have_the_same_tokens_elsewhere(two):
    settings = two[0].config.rollout.engine_settings()
    addresses = [server.address for server in two]
    servers = settings.server.model_copy(update={"addresses": addresses})
    engine = VllmServerEngine(settings.model_copy(update={"server": servers}))
    policy = create_policy(two[0].config.policy, seed=0)
    policy.model.generation_config.eos_token_id = []  # nothing ends by itself: the kill comes in the middle
    engine.load_policy(policy)
    whole = engine.generate(PROMPTS, Sampling(1.0, 200), SEEDS)
    found = []
    call = threading.Thread(target=lambda: found.extend(engine.generate(PROMPTS, Sampling(1.0, 200), SEEDS)))
    call.start()
    deadline = time.monotonic() + 60
    while running(two[1]) == 0:
        assert time.monotonic() < deadline, "no request arrived"
    two[1].signal(signal.SIGKILL)
    call.join(300)
    assert not call.is_alive()
    assert engine.metrics["engine/servers"] == 1  # so it died while it had requests
    assert [row.error for row in found] == [None] * len(PROMPTS)
    for row, expected in zip(found, whole, strict=True):
        assert len(row.token_ids) == 200
        np.testing.assert_array_equal(row.token_ids, expected.token_ids)
        np.testing.assert_allclose(row.logprobs, expected.logprobs, rtol=0, atol=1e-5)
    engine.close()
