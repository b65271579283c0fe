"""An attempt as it is recorded: tokens, mask, messages."""

import numpy as np

from rlft.engines.base import Generation, Sampling
from rlft.engines.transformers_engine import TransformersEngine
from rlft.environments.contract.base import BaseEnv, Context
from rlft.environments.contract.several import Several
from rlft.harness.attempt import Attempt
from rlft.harness.rollout import run_attempts
from rlft.models.tokens import render_prompt
from tests.factories import make_policy, make_task, user


class Script:
    """An engine that says what it is told to."""

    def __init__(self, *completions):
        self.completions, self.calls = list(completions), []
        self.policy_hash, self.metrics = "", {}

    def load_policy(self, policy):
        """Nothing to load."""

    def generate(self, prompts, sampling, seeds, progress=None):
        self.calls.append(([list(p) for p in prompts], list(seeds)))
        return [
            Generation(np.asarray(ids, np.int32), -np.arange(1, len(ids) + 1, dtype=np.float32), stop)
            for ids, stop in self.completions
        ]

    def close(self):
        """Nothing to give back."""


class Spoken(BaseEnv):
    """Puts a system prompt first."""

    def context(self, task):
        return Context(system_prompt=f"= {task.answer}")


def attempt(id, seed=0, sample=0, **fields):
    return Attempt(f"r-{id}-{sample}", make_task(id, **fields), sample, 2, seed)


def run(attempts, engine, environment=None):
    policy = make_policy()
    return policy, run_attempts(
        attempts, environment or BaseEnv(), policy, engine, Sampling(0.5, 3), environment_fingerprint="env"
    )


def test_tokens_mask_and_text():
    # ids: pad 0, eos 1, unk 2, then the characters 0123456789+= from 3 on
    engine = Script(([5, 1], "stop"), ([5, 6, 7], "length"), ([1], "stop"))
    attempts = [attempt("a", 11), attempt("a", 12, 1), attempt("b", 13, prompt="10+1=")]
    policy, (stopped, cut, silent) = run(attempts, engine)
    assert engine.calls == [([[4, 13, 4, 14], [4, 13, 4, 14], [4, 3, 13, 4, 14]], [11, 12, 13])]
    assert stopped.token_ids.tolist() == [4, 13, 4, 14, 5, 1]
    assert stopped.loss_mask.tolist() == [False] * 4 + [True] * 2
    assert stopped.logprobs.tolist() == [0, 0, 0, 0, -1, -2]
    assert stopped.messages == (user("1+1="), {"role": "assistant", "content": "2"})
    assert (stopped.stop_reason, stopped.truncated, stopped.completion_length) == ("stop", False, 2)
    assert cut.messages[-1]["content"] == "234"
    assert (cut.stop_reason, cut.truncated) == ("length", True)
    assert silent.messages[-1]["content"] == ""
    assert silent.prompt_length == 5
    for rollout in (stopped, cut, silent):
        assert (rollout.token_ids.dtype, rollout.loss_mask.dtype, rollout.logprobs.dtype) == (
            np.int32,
            np.bool_,
            np.float32,
        )
        assert len(rollout.token_ids) == len(rollout.loss_mask) == len(rollout.logprobs)
        assert rollout.loss_mask.sum() == rollout.completion_length
        assert not rollout.loss_mask[: rollout.prompt_length].any()
        assert rollout.policy == policy.identity
        assert (rollout.round, rollout.turns, rollout.error) == (2, 1, None)
        assert rollout.sampling == "temperature=0.5 max_completion_length=3"
    assert [r.seed for r in (stopped, cut, silent)] == [11, 12, 13]


def test_special_tokens_are_no_text():
    _, (rollout,) = run([attempt("a")], Script(([5, 0, 2, 6, 1], "stop")))
    assert rollout.messages[-1]["content"] == "23"
    assert rollout.token_ids.tolist()[-5:] == [5, 0, 2, 6, 1]


def test_the_system_prompt_is_part_of_the_prompt():
    policy, (rollout,) = run([attempt("a")], Script(([5], "length")), Spoken())
    assert [m["role"] for m in rollout.messages] == ["system", "user", "assistant"]
    assert rollout.token_ids[: rollout.prompt_length].tolist() == render_prompt(policy.tokenizer, rollout.messages[:-1])


def test_the_tokens_of_a_prompt_are_those_of_its_own_messages():
    class Varies(BaseEnv):
        said = 0

        def context(self, task):
            self.said += 1
            return Context(system_prompt="1" * self.said)

    policy, rollouts = run(
        [attempt("a", sample=n) for n in range(2)], Script(([5], "length"), ([5], "length")), Varies()
    )
    for rollout in rollouts:
        prompt = rollout.token_ids[: rollout.prompt_length].tolist()
        assert prompt == render_prompt(policy.tokenizer, rollout.messages[:-1])


def test_nothing_to_attempt():
    assert run([], Script())[1] == []


def test_a_prompt_that_leaves_little_room_is_cut_and_one_that_does_not_fit_is_an_error():
    policy = make_policy(max_position_embeddings=16)
    engine = TransformersEngine()
    engine.load_policy(policy)
    tasks = [
        make_task(id="fits", prompt="1" * 4),
        make_task(id="tight", prompt="1" * 14),
        make_task(id="long", prompt="1" * 16),
    ]
    attempts = [Attempt(task.id, task, 0, 0, seed) for seed, task in enumerate(tasks)]
    policy.model.generation_config.eos_token_id = []  # nothing ends by itself
    sampling = Sampling(temperature=1.0, max_completion_length=8)
    fits, tight, long = run_attempts(attempts, BaseEnv(), policy, engine, sampling, environment_fingerprint="")
    assert (fits.completion_length, fits.truncated, fits.error) == (8, True, None)
    assert (tight.completion_length, tight.truncated, tight.error) == (2, True, None)  # 16 - 14
    assert (long.completion_length, long.stop_reason, long.truncated) == (0, "error", False)
    assert "16 tokens do not fit the model's context of 16" in str(long.error)
    assert not long.loss_mask.any()


def test_several_environments_are_sampled_one_after_the_other():
    class Other(Spoken):
        """Shows another prompt."""

        def context(self, task):
            return ""

    several = Several({"one": Spoken(), "two": Other()})
    attempts = [
        attempt("a", 1, environment="two"),
        attempt("b", 2, environment="one"),
        attempt("c", 3, environment="two"),
    ]
    engine = Script(([5, 1], "stop"), ([6, 1], "stop"))
    engine.generate = lambda prompts, sampling, seeds, progress=None: (
        engine.calls.append(list(seeds))
        or [Generation(np.asarray([seed + 3, 1], np.int32), np.zeros(2, np.float32), "stop") for seed in seeds]
    )
    _, rows = run(attempts, engine, several)
    assert engine.calls == [[2], [1, 3]]  # by environment, each with the seeds of its own attempts
    assert [row.rollout_id for row in rows] == ["r-a-0", "r-b-0", "r-c-0"]
    assert [row.seed for row in rows] == [1, 2, 3]
    assert [row.messages[0]["content"] for row in rows] == ["1+1=", "= 2", "1+1="]
