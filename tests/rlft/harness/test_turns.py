"""Many turns with exact tokens: what was sampled stays as it was, and is all that is trained on."""

import string
import time
from contextlib import suppress

import numpy as np
import pytest

import rlft
from rlft.config import HarnessConfig, RewardConfig
from rlft.engines.base import Generation, Sampling
from rlft.engines.transformers_engine import TransformersEngine
from rlft.environments.contract.base import BaseEnv, live_states
from rlft.environments.contract.loading import load_environment
from rlft.errors import RlftError
from rlft.harness import rollout as sampled
from rlft.harness.attempt import Attempt
from rlft.harness.rollout import run_attempts
from rlft.models.tokens import character_tokenizer
from rlft.rewards.scoring import score_rollouts
from rlft.training.batching import pack_tree, pad_rows
from rlft.types import Rollouts, derive_seed
from tests.factories import make_policy, make_task

TOKENIZER = character_tokenizer(string.printable)
EOS = 1


def ids(text, *, end=True):
    return TOKENIZER(text, add_special_tokens=False).input_ids + [EOS] * end


def call(name, **arguments):
    written = ", ".join(f'"{key}": {value}' for key, value in arguments.items())
    return f'<tool_call>{{"name": "{name}", "arguments": {{{written}}}}}</tool_call>'


class Script:
    """An engine in which every conversation, known by the seed of its attempt, says what is written for it."""

    def __init__(self, lines, seconds=0.0):
        self.lines, self.seconds, self.calls = lines, seconds, []
        self.policy_hash, self.metrics = "", {}
        self.turn = {derive_seed(s, "turn", t) if t else s: (s, t) for s in lines for t in range(len(lines[s]))}

    def load_policy(self, policy):
        """Nothing to load."""

    def close(self):
        """Nothing to give back."""

    def generate(self, prompts, sampling, seeds, progress=None):
        self.calls.append([list(prompt) for prompt in prompts])
        time.sleep(self.seconds)
        return [self._one(*self.turn[seed]) for seed in seeds]

    def _one(self, seed, turn):
        said = self.lines[seed][turn]
        if said is None:
            return Generation.failed("engine", "gone")
        cut = said.endswith("[cut]")
        tokens = ids(said.removesuffix("[cut]"), end=not cut)
        logprobs = -np.arange(1, len(tokens) + 1, dtype=np.float32) / 8
        return Generation(np.asarray(tokens, dtype=np.int32), logprobs, "length" if cut else "stop")


class Counter(rlft.BaseEnv):
    """Adds, quickly or after a while."""

    @rlft.tool
    def add(self, a: int, b: int) -> int:
        """Add."""
        return a + b

    @rlft.tool
    async def later(self, seconds: float) -> str:
        """Wait."""
        import asyncio

        await asyncio.sleep(seconds)
        return "now"

    @rlft.reward
    def right(self, text, ground_truth):
        return float(text == ground_truth)


def play(lines, environment=None, engine=None, context=4096, **limits):
    engine = engine or Script(lines)
    policy = make_policy(max_position_embeddings=context, characters=string.printable)
    attempts = [Attempt(f"r{seed}", make_task(f"t{seed}"), 0, 0, seed) for seed in lines]
    sampling = Sampling(1.0, 200)
    rollouts = run_attempts(
        attempts,
        environment or Counter(),
        policy,
        engine,
        sampling,
        environment_fingerprint="e",
        harness=HarnessConfig(**limits),
    )
    return engine, rollouts


def test_what_was_sampled_is_appended_and_only_that_is_trained():
    first, second = call("add", a=1, b=2), "3"
    engine, (rollout,) = play({7: [first, second]})
    prompt, told = ids("1+1=", end=False), ids("\n3\n", end=False)
    assert rollout.token_ids.tolist() == prompt + ids(first) + told + ids(second)
    sampled = [False] * len(prompt) + [True] * len(ids(first)) + [False] * len(told) + [True] * 2
    assert rollout.loss_mask.tolist() == sampled
    assert rollout.logprobs[rollout.loss_mask].tolist() == [
        -n / 8 for count in (len(ids(first)), 2) for n in range(1, count + 1)
    ]
    assert not rollout.logprobs[~rollout.loss_mask].any()
    assert engine.calls == [[prompt], [prompt + ids(first) + told]]
    assert rollout.prompt_length == len(prompt)
    assert (rollout.turns, rollout.tool_calls, rollout.tool_errors) == (2, 1, 0)
    assert (rollout.stop_reason, rollout.truncated, rollout.error) == ("stop", False, None)
    assert [message["role"] for message in rollout.messages] == ["user", "assistant", "tool", "assistant"]
    assert rollout.messages[1]["tool_calls"][0]["function"]["arguments"] == {"a": 1, "b": 2}
    assert (rollout.messages[1]["content"], rollout.messages[3]["content"]) == ("", "3")


def test_a_malformed_call_is_told_and_counted():
    _, (rollout,) = play({7: ['<tool_call>{"name": add}</tool_call>', call("sub", a=1), "3"]})
    tools = [message["content"] for message in rollout.messages if message["role"] == "tool"]
    assert tools[0].startswith("error: ")
    assert tools[1].startswith("error: there is no tool named 'sub'")
    assert (rollout.turns, rollout.tool_calls, rollout.tool_errors, rollout.stop_reason) == (3, 2, 2, "stop")


def test_what_the_model_wrote_of_a_malformed_call_is_kept_and_changes_no_token():
    broken = '<tool_call>{"name": "add", "arguments": {"a": 1 "b": 2}}</tool_call>'
    _, (rollout,) = play({7: [f"I add.\n{broken}", "3"]})
    asked, told = rollout.messages[1:3]
    # the comma is missing at the 38th character of the call, which begins behind the 11 of <tool_call>
    assert asked["content"] == "I add."
    (invalid,) = asked["invalid_tool_calls"]
    assert (invalid["text"], invalid["position"]) == (broken, 11 + 37)
    assert told == {"role": "tool", "content": f"error: {invalid['error']}", "failed": True}
    assert "at character 38, marked >>>: " in told["content"]
    assert '{"a": 1 >>>"b": 2}' in told["content"]
    sampled = [ids(f"I add.\n{broken}"), ids("3")]
    assert rollout.token_ids[rollout.loss_mask].tolist() == sampled[0] + sampled[1]
    behind = ids(f"\n{told['content']}\n", end=False)
    assert rollout.token_ids.tolist() == ids("1+1=", end=False) + sampled[0] + behind + sampled[1]


def test_a_malformed_call_at_the_end_is_no_answer_to_the_most_lenient_reward():
    class Lenient(Counter):
        @rlft.reward
        def right(self, text, completion, ground_truth):
            assert completion[1]["role"] == "tool"
            return float(ground_truth in text or ground_truth in completion[0]["content"])

    task = make_task("t7", answer="42")
    _, rollouts = play({7: ['<tool_call>{"name": "submit", "arguments": {"answer": 42}']}, Lenient(), max_turns=1)
    (message,) = (each for each in rollouts[0].messages if each["role"] == "assistant")
    assert "42" in message["invalid_tool_calls"][0]["text"]
    (row,) = score_rollouts(Rollouts(tuple(rollouts)), {"t7": task}, Lenient(), RewardConfig(timeout_seconds=5.0))
    assert (row.error, row.total, row.solved) == (None, 0.0, False)


def test_conversations_go_on_together_and_end_by_themselves():
    turns = {seed: [call("add", a=seed, b=turn) for turn in range(seed)] + ["end"] for seed in range(1, 5)}
    engine, rollouts = play(turns)
    assert [len(batch) for batch in engine.calls] == [4, 4, 3, 2, 1]
    assert [rollout.turns for rollout in rollouts] == [2, 3, 4, 5]
    for rollout in rollouts:  # every prompt the engine saw is the beginning of what there is at the end
        seen = {tuple(p) for batch in engine.calls for p in batch if p == rollout.token_ids[: len(p)].tolist()}
        assert len(seen) == rollout.turns


@pytest.mark.parametrize("lockstep", [False, True])
def test_a_slow_tool_holds_up_nobody_but_in_lockstep(lockstep):
    turns = {1: [call("later", seconds=0.6), "end"], 2: [call("add", a=1, b=1)] * 3 + ["end"]}
    engine, (slow, quick) = play(turns, lockstep=lockstep)
    assert [len(batch) for batch in engine.calls] == ([2, 2, 1, 1] if lockstep else [2, 1, 1, 1, 1])
    assert (slow.turns, quick.turns) == (2, 4)
    assert slow.seconds >= 0.6
    assert (quick.seconds < 0.6) != lockstep


def test_a_turn_that_is_cut_off_ends_the_rollout():
    _, (rollout,) = play({7: [call("add", a=1, b=1), "<tool_call>{[cut]"]})
    assert (rollout.stop_reason, rollout.truncated, rollout.turns) == ("length", True, 2)
    assert rollout.messages[-1] == {"role": "assistant", "content": "<tool_call>{"}
    assert rollout.loss_mask[-1]


@pytest.mark.parametrize(
    "limits", [{"context": 64}, {"max_tokens": 40}, {"timeout_seconds": 1e-6}], ids=["context", "tokens", "seconds"]
)
def test_without_room_or_time_for_another_turn_it_ends_with_what_was_said(limits):
    first = call("add", a=1, b=2)
    engine, (rollout,) = play({7: [first, "never"]}, **limits)
    assert len(engine.calls) == 1
    assert rollout.token_ids.tolist() == ids("1+1=", end=False) + ids(first)
    assert (rollout.stop_reason, rollout.truncated, rollout.error) == ("length", True, None)
    assert rollout.messages[-1]["content"] == "3"  # the tool was run


def test_an_engine_that_fails_in_a_later_turn_is_an_error_with_what_there_was():
    _, (lost, fine) = play({1: [call("add", a=1, b=2), None], 2: ["2"]})
    assert (str(lost.error), lost.stop_reason, lost.turns) == ("engine: gone", "error", 2)
    assert lost.loss_mask.sum() == len(ids(call("add", a=1, b=2)))
    assert fine.error is None


def test_one_turn_without_tools_knows_no_calls():
    class Plain(BaseEnv):
        async def compute_reward(self, completion, ground_truth):
            return {"x": 1.0}

    _, (rollout,) = play({7: [call("add", a=1, b=2)]}, Plain())
    assert rollout.messages[-1] == {"role": "assistant", "content": call("add", a=1, b=2)}
    assert (rollout.turns, rollout.tool_calls) == (1, 0)


def test_code_that_neither_returns_nor_awaits_is_found_out():
    class Blocks(Counter):
        async def respond(self, rollout_id, completion):
            time.sleep(3)

    with pytest.raises(RlftError, match="neither returned nor awaited"):
        play({7: ["2"]}, Blocks(), tool_timeout_seconds=0.3)


def test_a_tool_that_cannot_be_cancelled_is_found_out():
    import asyncio

    class Stubborn(Counter):
        async def respond(self, rollout_id, completion):
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    continue

    with pytest.raises(RlftError, match=r"no answer within 0\.9 s"):
        play({7: ["2"]}, Stubborn(), tool_timeout_seconds=0.2, timeout_seconds=0.5)


def test_a_turn_of_many_slow_calls_is_cut_short_and_ends_no_run():
    # Each call is cancelled after 0.2 s; what has not begun within 0.5 s is not begun, and the rollout ends.
    many = "\n".join([call("later", seconds=60)] * 20)
    _, (slow, fine) = play({1: [many, "never"], 2: ["2"]}, tool_timeout_seconds=0.2, timeout_seconds=0.5)
    heard = [message["content"] for message in slow.messages if message["role"] == "tool"]
    assert heard[0] == "error: later took longer than 0.2 s"
    assert heard[-1] == "error: not run: the calls before it took longer than 0.5 s"
    assert (slow.stop_reason, slow.error, slow.tool_errors, fine.error) == ("length", None, 20, None)
    assert sum("took longer than 0.2 s" in text for text in heard) <= 3  # begun at 0, 0.2 and 0.4 s at the earliest


def test_conversations_that_get_ready_together_go_on_together_however_long_they_took(monkeypatch):
    monkeypatch.setattr(sampled, "_QUIET_SECONDS", 0.4)
    monkeypatch.setattr(sampled, "_LONGEST_QUIET", 0.4)
    turns = {1: [call("later", seconds=0.6), "end"], 2: [call("later", seconds=0.7), "end"]}
    engine, _ = play(turns)
    assert [len(batch) for batch in engine.calls] == [2, 2]


def test_tools_that_run_when_the_engine_fails_let_go_of_what_they_hold():
    import asyncio

    class Holds(Counter):
        let_go, closed = False, ()

        async def teardown(self, rollout_id):
            self.closed = sorted([*self.closed, rollout_id])

        @rlft.tool
        async def hold(self) -> str:
            """Hold a process, say."""
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.05)  # to end it takes a while
                self.let_go = True
            return ""

    class Fails(Script):
        def generate(self, prompts, sampling, seeds, progress=None):
            if self.calls:
                raise RuntimeError("gone")
            return super().generate(prompts, sampling, seeds)

    environment, lines = Holds(), {1: [call("hold")], 2: [call("add", a=1, b=1), "end"]}
    started = time.perf_counter()
    with pytest.raises(RuntimeError, match="gone"):
        play(lines, environment, Fails(lines))
    assert time.perf_counter() - started < 15  # and not the limit of a tool, 30 s
    assert environment.let_go
    assert environment.closed == ["r1", "r2"]
    assert live_states(environment) == {}


def test_a_conversation_is_closed_once_though_another_cannot_be():
    import asyncio

    class Clings(Counter):
        closed = ()

        async def teardown(self, rollout_id):
            self.closed = (*self.closed, rollout_id)
            for _ in range(2 * (rollout_id == "r2")):  # deaf to the time-out, and to being cancelled after it
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(60)
            await asyncio.sleep(0 if rollout_id == "r1" else 60)

    environment = Clings()
    with pytest.raises(RlftError, match="no answer within"):
        play({1: ["end"], 2: ["end"]}, environment, timeout_seconds=0.2, tool_timeout_seconds=0.2)
    assert sorted(environment.closed) == ["r1", "r2"]


class Echo(BaseEnv):
    """Answers everything twice."""

    max_turns = 3

    async def respond(self, rollout_id, completion):
        return f"{len(completion)} said"

    async def compute_reward(self, completion, ground_truth):
        return {"x": 1.0}


@pytest.mark.parametrize("read", [pack_tree, pad_rows])
def test_the_trainer_finds_the_log_probabilities_of_every_sampled_token(read):
    # A model scores the whole sequence at once; that is what each turn was sampled with, tools' tokens in between.
    policy = make_policy(max_position_embeddings=256, characters=string.printable)
    policy.model.generation_config.eos_token_id = list(range(1, 40))  # turns end early
    engine = TransformersEngine()
    engine.load_policy(policy)
    attempts = [Attempt(f"r{n}", make_task("t"), n, 0, n) for n in range(4)]
    rollouts = run_attempts(attempts, Echo(), policy, engine, Sampling(1.0, 12), environment_fingerprint="e")
    assert max(rollout.turns for rollout in rollouts) == 3
    for rollout in rollouts:
        sequence = rollout.token_ids.astype(np.int64)
        scored = score(policy, sequence)
        np.testing.assert_allclose(
            rollout.logprobs[1:][rollout.loss_mask[1:]], scored[rollout.loss_mask[1:]], atol=1e-5
        )
    batch = read([(rollout, 1.0) for rollout in rollouts], policy.device)
    expected = [token for rollout in rollouts for token in rollout.token_ids[rollout.loss_mask]]
    assert sorted(batch.targets.tolist()) == sorted(expected)


class Unpunctual(Echo):
    """Answers some conversations at once and others later."""

    def __init__(self, late):
        self.late = late

    async def respond(self, rollout_id, completion):
        import asyncio

        await asyncio.sleep(0.05 * (rollout_id in self.late))
        return await super().respond(rollout_id, completion)


def test_in_lockstep_the_same_seeds_give_the_same_bytes_whoever_is_late():
    # Without, the last bits of the log-probabilities differ here: they depend on the batch.
    def sample(late):
        policy = make_policy(max_position_embeddings=256, characters=string.printable)
        policy.model.generation_config.eos_token_id = list(range(1, 40))
        engine = TransformersEngine()
        engine.load_policy(policy)
        attempts = [Attempt(f"r{n}", make_task("t"), n, 0, n) for n in range(6)]
        options = {"environment_fingerprint": "e", "harness": HarnessConfig(lockstep=True)}
        rollouts = run_attempts(attempts, Unpunctual(late), policy, engine, Sampling(1.0, 12), **options)
        assert {rollout.turns for rollout in rollouts} == {3}
        arrays = [(r.token_ids.tobytes(), r.loss_mask.tobytes(), r.logprobs.tobytes()) for r in rollouts]
        return arrays, [(r.messages, r.state, r.stop_reason, r.policy) for r in rollouts]

    assert sample({"r0", "r1", "r4"}) == sample({"r2"})


def score(policy, sequence):
    """Log-probability of each token but the first, after all that stand before it."""
    import torch

    with torch.no_grad():
        logits = policy.model(torch.from_numpy(sequence)[None]).logits[0, :-1].double()
    return logits.log_softmax(-1).gather(-1, torch.from_numpy(sequence)[1:, None]).squeeze(-1).numpy()


@pytest.mark.slow
def test_tools_in_worker_processes_give_the_same_tokens():
    lines = {seed: [call("add", a=seed, b=2), f"{seed + 2}"] for seed in range(5)} | {9: [call("add", a='"x"'), "?"]}
    environment = load_environment("tests.rlft.harness.test_turns:Counter", {})
    _, here = play(lines, environment)
    _, apart = play(lines, environment, isolation="process", processes=2)
    for one, other in zip(here, apart, strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()
        assert one.loss_mask.tolist() == other.loss_mask.tolist()
        assert (one.messages, one.state, one.tool_calls, one.tool_errors) == (
            other.messages,
            other.state,
            other.tool_calls,
            other.tool_errors,
        )
    assert apart[1].messages[-1]["content"] == "3"
    assert apart[5].tool_errors == 1
