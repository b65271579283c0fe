"""Log-probabilities equal the plain computation, and those of the engine."""

import numpy as np
import pytest
import torch

from rlft.engines.base import Sampling
from rlft.engines.transformers_engine import TransformersEngine
from rlft.training.batching import make_batch
from rlft.training.logprobs import token_logprobs
from tests.factories import ARCHITECTURES, make_policy, make_rollout

CPU = torch.device("cpu")


def plain_logprobs(model, token_ids, temperature):
    """One unpadded row: logits of everything, divided, softmax, the next token's."""
    ids = torch.tensor([token_ids.tolist()])
    with torch.no_grad():
        logits = model(ids).logits[0].double()
    everything = (logits / temperature).log_softmax(-1)
    chosen = [everything[i - 1, token].item() for i, token in enumerate(token_ids.tolist()) if i]
    entropy = [-(everything[i].exp() * everything[i]).sum().item() for i in range(len(token_ids) - 1)]
    return np.asarray([0.0, *chosen]), np.asarray([0.0, *entropy])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_equal_to_the_plain_computation(architecture, temperature):
    policy = make_policy(architecture, sharpness=3.0)
    rollouts = [
        make_rollout(prompt=[4, 5], completion=[6]),
        make_rollout(prompt=[7, 8, 9, 10, 11], completion=[3, 4, 1]),
        make_rollout(prompt=[13, 14, 3], completion=[5, 5, 5, 5, 5, 5, 5, 1]),
    ]
    logprobs, entropy = token_logprobs(policy.model, make_batch(rollouts, [0.0] * 3, CPU), temperature)
    assert logprobs.shape == entropy.shape == (3, 11)
    assert logprobs.requires_grad
    assert not entropy.requires_grad
    for row, rollout in enumerate(rollouts):
        expected, expected_entropy = plain_logprobs(policy.model, rollout.token_ids, temperature)
        sampled = np.nonzero(rollout.loss_mask)[0]
        np.testing.assert_allclose(logprobs[row].detach().numpy()[sampled], expected[sampled], atol=2e-5)
        # the entropy at a token is that of the distribution it was drawn from, one place earlier
        np.testing.assert_allclose(entropy[row].numpy()[sampled], expected_entropy[sampled], atol=2e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_equal_to_what_the_engine_sampled(architecture, temperature):
    policy = make_policy(architecture, sharpness=3.0)
    engine = TransformersEngine()
    engine.load_policy(policy)
    prompts = [[4], [5, 6, 7, 8, 9, 10], [5, 6, 7, 8, 9, 10], [11, 13, 4]] * 3
    generations = engine.generate(prompts, Sampling(temperature, 9), range(len(prompts)))
    rollouts = [
        make_rollout(prompt=p, completion=g.token_ids.tolist(), logprobs=g.logprobs.tolist())
        for p, g in zip(prompts, generations, strict=True)
    ]
    batch = make_batch(rollouts, [0.0] * len(rollouts), CPU)
    logprobs, _ = token_logprobs(policy.model, batch, temperature)
    mask = batch.mask.bool()
    torch.testing.assert_close(logprobs.detach()[mask], batch.logprobs[mask], rtol=0, atol=1e-5)
    assert len({len(g.token_ids) for g in generations}) > 1, "completions of different lengths"


def test_a_token_does_not_see_what_comes_after_it():
    policy = make_policy(sharpness=3.0)
    one, other = (make_batch([make_rollout(prompt=[4, 5], completion=[6, last])], [0.0], CPU) for last in (7, 9))
    (one_logprobs, _), (other_logprobs, _) = (token_logprobs(policy.model, batch, 1.0) for batch in (one, other))
    assert torch.equal(one_logprobs[0, 2], other_logprobs[0, 2])
    assert not torch.equal(one_logprobs[0, 3], other_logprobs[0, 3])
