"""Several servers as one engine, against small servers that sample with transformers: adapters, deaths, and fates."""

import copy
import dataclasses
import re
import threading
import time
from collections import Counter

import numpy as np
import pytest
import torch

from rlft.config import EngineSettings, RewardConfig, ServerSettings, WarmStartConfig
from rlft.engines import server_requests
from rlft.engines.base import Sampling
from rlft.engines.transformers_engine import TransformersEngine
from rlft.engines.vllm_server import VllmServerEngine
from rlft.errors import EngineError
from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
from rlft.models import save_policy
from rlft.outcome import Fate
from rlft.rewards.scoring import score_rollouts
from rlft.training.demonstration_file import Demonstration
from rlft.training.imitation import train_sft
from rlft.training.ledger import plan_training
from rlft.types import derive_seed
from tests.factories import FirstCharacter, make_task, user
from tests.rlft.engines.servers import DROP, GENERATE, HANG, LOAD, MODELS, RELOAD, RESET, UNLOAD, SmallServer
from tests.rlft.models.small_models import add_lora, make_model, policy_of

pytestmark = pytest.mark.slow  # much of it is waiting for servers that do not answer

PROMPTS = [[4 + place, 5, 6, 7] for place in range(8)]
SAMPLING = Sampling(1.0, 6)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(server_requests, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(server_requests, "_LONGEST_WAIT", 0.01)


@pytest.fixture
def start(request):
    """Some servers and an engine over them; everything is closed at the end."""

    def make(count=1, **settings):
        servers = [SmallServer() for _ in range(count)]
        settings = {"attempts": 2, "timeout_seconds": 5.0} | settings
        addresses = [server.url for server in servers]
        engine = VllmServerEngine(
            EngineSettings(engine="vllm_server", server=ServerSettings(addresses=addresses, **settings))
        )
        request.addfinalizer(engine.close)
        for server in servers:
            request.addfinalizer(server.stop)
        return engine, servers

    return make


def make_adapter():
    return policy_of(add_lora(make_model("qwen3")))


def step(policy):
    """Change what is trained, as an update does."""
    draw = torch.Generator().manual_seed(policy.metadata.update)
    with torch.no_grad():
        for parameter in policy.trainable().values():
            parameter += 0.05 * torch.randn(parameter.shape, generator=draw)
    policy.note_change(update=policy.metadata.update + 1)


def sampled(policy, prompts, seeds):
    engine = TransformersEngine()
    engine.load_policy(policy)
    return engine.generate(prompts, SAMPLING, seeds)


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.token_ids.tolist(), one.stop_reason, one.error) == (
            other.token_ids.tolist(),
            other.stop_reason,
            None,
        )
        np.testing.assert_allclose(one.logprobs, other.logprobs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["adapter", "full"])
def test_results_come_in_order_and_from_the_newest_weights(start, kind):
    engine, servers = start(2)
    policy = make_adapter() if kind == "adapter" else policy_of(make_model("qwen3", seed=3))
    seeds = [derive_seed("test", place) for place in range(16)]
    for _ in range(3):
        engine.load_policy(policy)
        assert engine.policy_hash == policy.identity
        assert engine.metrics["engine/canary_logp_difference"] < 1e-5
        assert_same(engine.generate(PROMPTS * 2, SAMPLING, seeds), sampled(policy, PROMPTS * 2, seeds))
        step(policy)
    for server in servers:
        pushed = [path for path, _ in server.requests if path in (LOAD, RELOAD, RESET, UNLOAD)]
        assert pushed == ([LOAD, LOAD, UNLOAD, LOAD, UNLOAD] if kind == "adapter" else [RELOAD, RESET] * 3)


def test_a_group_stays_on_the_server_of_its_prompt(start):
    engine, servers = start(3)
    engine.load_policy(make_adapter())
    for server in servers:
        server.requests.clear()
        server.fault = lambda path, number: time.sleep(0.1)  # so that the others have begun to ask theirs
    engine.generate(PROMPTS * 4, SAMPLING, range(32))
    homes = [Counter(tuple(body["token_ids"]) for body in server.bodies(GENERATE)) for server in servers]
    assert sum(map(len, homes)) == len(PROMPTS)  # each prompt on one server
    assert all(count == 4 for home in homes for count in home.values())
    assert sum(map(bool, homes)) > 1  # and not all on one


def test_adapters_are_named_after_the_policy_and_the_old_one_is_unloaded(start, tmp_path):
    engine, (server,) = start()
    policy, names = make_adapter(), []
    for number in range(3):
        save_policy(policy, tmp_path / str(number))
        engine.load_policy(policy)
        (name,) = set(server.models) - {None}
        assert policy.metadata.weights_hash in name
        server.requests.clear()
        engine.generate(PROMPTS, SAMPLING, range(8))
        assert {body["model"] for body in server.bodies(GENERATE)} == {name}
        names.append(name)
        step(policy)
    assert len(set(names)) == 3
    engine.close()
    assert set(server.models) == {None}


@pytest.mark.parametrize("kind", ["adapter", "full"])
def test_supervised_fine_tuning_makes_weights_that_are_pushed(start, tmp_path, kind):
    engine, (server,) = start()
    policy = make_adapter() if kind == "adapter" else policy_of(make_model("qwen3", seed=3))
    save_policy(policy, tmp_path / "one")
    engine.load_policy(policy)
    shown = [Demonstration((user("1+1="),), ({"role": "assistant", "content": "2"},))]
    train_sft(policy, shown, WarmStartConfig(steps=2, batch_size=1, learning_rate=1e-2, warmup_steps=0), seed=0)
    server.requests.clear()
    engine.load_policy(policy)
    assert (LOAD if kind == "adapter" else RELOAD) in [path for path, _ in server.requests]
    assert_same(engine.generate(PROMPTS, SAMPLING, range(8)), sampled(policy, PROMPTS, range(8)))


def test_a_policy_with_a_hash_is_pushed_once_and_one_without_again(start, tmp_path):
    engine, (server,) = start()
    policy = make_adapter()
    engine.load_policy(policy)
    engine.load_policy(policy)  # a round without an update leaves the identity as it is
    assert server.counts[LOAD] == 2
    save_policy(policy, tmp_path / "policy")
    engine.load_policy(policy)
    engine.load_policy(policy)
    assert server.counts[LOAD] == 3


def test_an_adapter_that_a_dead_run_left_behind_is_no_obstacle(start, tmp_path):
    engine, (server,) = start()
    policy = make_adapter()
    save_policy(policy, tmp_path / "policy")
    engine.load_policy(policy)
    again = VllmServerEngine(engine.settings)
    again.load_policy(policy)
    assert_same(again.generate(PROMPTS, SAMPLING, range(8)), sampled(policy, PROMPTS, range(8)))
    again.close()
    assert server.counts[LOAD] == 2


@pytest.mark.parametrize("kind", ["adapter", "full"])
def test_a_server_that_keeps_its_old_weights_is_left_out_and_can_follow_later(start, kind, caplog):
    engine, servers = start(2)
    policy = make_adapter() if kind == "adapter" else policy_of(make_model("qwen3"))
    engine.load_policy(policy)
    step(policy)
    old, serve = copy.deepcopy(servers[1].models), servers[1]._serve

    def keep_the_old(path, body):
        answer = serve(path, body)
        if path == LOAD:
            servers[1].models[body["lora_name"]] = next(model for name, model in old.items() if name)
        if path == RELOAD:
            servers[1].models[None] = old[None]
        return answer

    servers[1]._serve = keep_the_old
    engine.load_policy(policy)
    assert re.search(r"does not (sample with|have) .*; 1 of 2 servers left", caplog.text)
    before = servers[1].counts[GENERATE]
    assert_same(engine.generate(PROMPTS, SAMPLING, range(8)), sampled(policy, PROMPTS, range(8)))
    assert (servers[1].counts[GENERATE], engine.metrics["engine/servers"]) == (before, 1)
    servers[1]._serve = serve
    step(policy)
    engine.load_policy(policy)
    assert engine.metrics["engine/servers"] == 2
    assert_same(engine.generate(PROMPTS, SAMPLING, range(8)), sampled(policy, PROMPTS, range(8)))
    assert [len(server.models) for server in servers] == ([2, 2] if kind == "adapter" else [1, 1])  # nothing is left


@pytest.mark.parametrize("pushes", [0, 1])
def test_without_a_server_that_has_the_weights_nothing_is_sampled(start, pushes):
    # At the first push one such server is enough: it was set up wrongly, which is to be mended before the run goes on.
    engine, servers = start(2)
    policy = make_adapter()
    for _ in range(pushes):
        engine.load_policy(policy)
        step(policy)
    for server in servers if pushes else servers[1:]:
        server.fault = lambda path, number: 400 if path == LOAD else None
    with pytest.raises(EngineError, match=f"{servers[1].url} answers 400"):
        engine.load_policy(policy)
    assert (engine.policy_hash, engine.metrics) == ("", {})
    with pytest.raises(RuntimeError, match="load_policy first"):
        engine.generate(PROMPTS, SAMPLING, range(8))


@pytest.mark.parametrize("kind", ["adapter", "full"])
def test_weights_are_written_once_and_all_servers_load_them_at_the_same_time(start, kind):
    # Each server answers only once all three are asked: were they asked in turn, the first would never answer.
    engine, servers = start(3, timeout_seconds=30.0)
    policy = make_adapter() if kind == "adapter" else policy_of(make_model("qwen3", seed=3))
    path = LOAD if kind == "adapter" else RELOAD
    for asked in (path, GENERATE):
        together = threading.Barrier(3)
        for server in servers:
            serve = server._serve

            def wait(path, body, serve=serve, asked=asked, together=together, met=[]):  # noqa: B006
                if path == asked and not met:
                    met.append(together.wait(20))
                return serve(path, body)

            server._serve = wait
    engine.load_policy(policy)
    assert engine.metrics["engine/servers"] == 3
    places = {
        body.get("lora_path") or body["kwargs"]["weights_path"]
        for each in servers
        for body in each.bodies(path)
        if "weights_path" in body.get("kwargs", {}) or kind == "adapter"
    }
    assert len(places) == 1
    assert len(engine.proof.evidence) == 3
    assert_same(engine.generate(PROMPTS, SAMPLING, range(8)), sampled(policy, PROMPTS, range(8)))


def test_a_run_with_servers_says_what_rounding_explains(start):
    # The trainer stops a round whose samples differ from it by more: of several servers the worst counts.
    engine, _ = start(2)
    engine.load_policy(make_adapter())
    found = [evidence.metrics("float32") for evidence in engine.proof.evidence.values()]
    assert len(found) == 2
    for name in ("engine/canary_logp_difference_mean", "engine/logp_difference_limit"):
        assert engine.metrics[name] == max(metrics[name] for metrics in found) > 0


def test_the_rollouts_of_a_server_that_dies_go_to_another_one(start):
    engine, servers = start(2)
    policy = make_adapter()
    engine.load_policy(policy)
    before = servers[0].counts[GENERATE]
    servers[0].fault = lambda path, number: None if number <= before + 3 else DROP
    found = engine.generate(PROMPTS * 4, SAMPLING, range(32))
    assert_same(found, sampled(policy, PROMPTS * 4, range(32)))
    assert servers[0].counts[GENERATE] > before + 3, "it did not die in the middle"
    servers[0].fault = lambda path, number: None
    before = servers[0].counts[GENERATE]
    engine.generate(PROMPTS, SAMPLING, range(8))
    assert servers[0].counts[GENERATE] == before, "it was asked, and nobody knows with what weights it came back"
    assert engine.metrics["engine/servers"] == 1
    step(policy)
    engine.load_policy(policy)
    assert_same(engine.generate(PROMPTS, SAMPLING, range(8)), sampled(policy, PROMPTS, range(8)))
    assert servers[0].counts[GENERATE] > before, "the next policy brings it back"
    assert engine.metrics["engine/servers"] == 2


def test_without_a_server_every_rollout_is_an_error_and_nothing_hangs(start):
    engine, servers = start(2)
    engine.load_policy(make_adapter())
    for client, server, fault in zip(engine.servers.clients, servers, (HANG, DROP), strict=True):
        requests = client._requests
        requests.settings = requests.settings.model_copy(update={"timeout_seconds": 0.3})
        server.fault = lambda path, number, fault=fault: fault
    started = time.perf_counter()
    found = engine.generate(PROMPTS * 8, SAMPLING, range(64))
    assert time.perf_counter() - started < 15
    assert len(found) == 64
    for generation in found:
        assert re.match(r"engine: (http://127\.0\.0\.1:\d+ does not answer|no server is left)", str(generation.error))
        assert (generation.stop_reason, len(generation.token_ids), len(generation.logprobs)) == ("error", 0, 0)


def test_one_request_that_is_refused_is_one_error(start):
    engine, (server,) = start()
    policy = make_adapter()
    engine.load_policy(policy)
    serve = server._serve
    server._serve = lambda path, body: (400, "no") if body.get("token_ids") == PROMPTS[2] else serve(path, body)
    found = engine.generate(PROMPTS, SAMPLING, range(8))
    expected = sampled(policy, PROMPTS, range(8))
    assert str(found[2].error).startswith(f"engine: {server.url} answers 400")
    assert_same(found[:2] + found[3:], expected[:2] + expected[3:])


def test_a_prompt_must_leave_room(start):
    engine, (server,) = start()
    engine.load_policy(make_adapter())
    long, tight = engine.generate([[4] * 64, [4] * 62], Sampling(1.0, 8), [0, 1])
    assert str(long.error) == "prompt: 64 tokens leave no room in the engine's context of 64"
    assert server.bodies(GENERATE)[-1]["sampling_params"]["max_tokens"] == 2
    assert (tight.error, len(tight.token_ids) <= 2) == (None, True)


def test_calls_that_make_no_sense(start):
    engine, _ = start()
    with pytest.raises(RuntimeError, match="load_policy first"):
        engine.generate([[4]], SAMPLING, [0])
    engine.load_policy(make_adapter())
    with pytest.raises(ValueError, match="2 prompts need as many seeds, not 1"):
        engine.generate([[4], [5]], SAMPLING, [0])
    with pytest.raises(ValueError, match="prompt 1 has no token"):
        engine.generate([[4], []], SAMPLING, [0, 1])
    with pytest.raises(EngineError, match=r"=3: vllm samples at 0\.01 to 2"):
        engine.generate([[4]], Sampling(3.0, 8), [0])
    assert engine.generate([], SAMPLING, []) == []


@pytest.mark.parametrize(
    ("kind", "path"), [("adapter", MODELS), ("adapter", LOAD), ("full", RELOAD), ("full", GENERATE)]
)
def test_a_server_that_is_not_there_when_weights_come_is_left_out(start, kind, path):
    engine, servers = start(2, timeout_seconds=30.0)
    policy = make_adapter() if kind == "adapter" else policy_of(make_model("qwen3", seed=3))
    engine.load_policy(policy)
    servers[1].fault = lambda asked, number: DROP if asked == path else None
    step(policy)
    engine.load_policy(policy)
    assert engine.metrics["engine/servers"] == 1
    assert_same(engine.generate(PROMPTS, SAMPLING, range(8)), sampled(policy, PROMPTS, range(8)))
    servers[1].fault = lambda asked, number: None
    step(policy)
    engine.load_policy(policy)
    assert engine.metrics["engine/servers"] == 2
    assert_same(engine.generate(PROMPTS, SAMPLING, range(8)), sampled(policy, PROMPTS, range(8)))


def test_without_any_server_weights_go_nowhere(start):
    engine, servers = start(2)
    policy = make_adapter()
    engine.load_policy(policy)
    for server in servers:
        server.fault = lambda path, number: DROP
    step(policy)
    with pytest.raises(EngineError, match=f"{servers[1].url} does not answer") as error:
        engine.load_policy(policy)
    assert "rlft serve-engine" in error.value.fix
    assert engine.policy_hash == ""


def test_a_rollout_that_no_server_gave_leaves_its_group_and_is_no_zero(start):
    engine, (server,) = start(concurrency=1)
    policy = make_adapter()
    engine.load_policy(policy)
    tasks = [make_task("a"), make_task("b", prompt="2+2=")]
    before = server.counts[GENERATE]  # one request at a time: all of a and two of b are answered, then it dies
    server.fault = lambda path, number: None if number <= before + 6 else DROP
    rollouts = collect_rollouts(
        tasks,
        FirstCharacter(),
        PolicyPlayer(policy, engine),
        SamplingSettings(temperature=1.0, max_completion_length=6, seed=0),
        num_generations=4,
        round=0,
        label="train",
    )
    lost = [rollout.rollout_id for rollout in rollouts if rollout.error is not None]
    assert lost == ["train-0-1-b-2", "train-0-1-b-3"]
    assert all(str(rollout.error).startswith("engine: ") for rollout in rollouts if rollout.rollout_id in lost)
    rewards = score_rollouts(
        rollouts, {task.id: task for task in tasks}, FirstCharacter(), RewardConfig(timeout_seconds=10)
    )
    assert [reward.total is None for reward in rewards] == [False] * 6 + [True] * 2
    # Rewards 1 and 0 in what is left of the group: its mean is 1/2, where two zeros more would make it 1/4.
    totals = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    rows = [dataclasses.replace(row, total=total) for row, total in zip(rewards.rows[:6], totals, strict=True)]
    rewards = dataclasses.replace(rewards, rows=(*rows, *rewards.rows[6:]))
    plan = plan_training(rollouts, rewards, scale="none", mask_truncated_completions=False)
    assert plan.fates == dict.fromkeys(lost, Fate("errored", "engine"))
    assert [advantage for _, advantage in plan.groups[1]] == [0.5, -0.5]


def test_a_full_weight_server_that_came_back_with_its_own_weights_gets_them_again(start, tmp_path):
    # Nothing in a request for full weights says which: so they are pushed again although the policy is the same.
    engine, servers = start(2)
    policy = policy_of(make_model("qwen3", seed=3))
    save_policy(policy, tmp_path / "policy")
    engine.load_policy(policy)
    servers[1].models[None] = servers[1].base
    engine.load_policy(policy)
    assert [server.counts[RELOAD] for server in servers] == [2, 2]
    assert_same(engine.generate(PROMPTS, SAMPLING, range(8)), sampled(policy, PROMPTS, range(8)))


def test_a_server_that_has_lost_its_adapter_is_left_out_and_brought_back(start):
    engine, servers = start(2)
    policy = make_adapter()
    engine.load_policy(policy)
    for name in [name for name in servers[1].models if name]:
        del servers[1].models[name]
    assert_same(engine.generate(PROMPTS, SAMPLING, range(8)), sampled(policy, PROMPTS, range(8)))
    assert engine.metrics["engine/servers"] == 1
    step(policy)
    engine.load_policy(policy)
    assert engine.metrics["engine/servers"] == 2


def test_an_adapter_whose_loading_was_answered_too_late_is_there(start):
    engine, servers = start(2)
    serve, lost = servers[1]._serve, []

    def late(path, body):
        answer = serve(path, body)
        if path == LOAD and not lost:
            lost.append(path)
            return 503, {"error": {"message": "the answer is lost"}}
        return answer

    servers[1]._serve = late
    policy = make_adapter()
    engine.load_policy(policy)
    assert (servers[1].counts[LOAD], engine.metrics["engine/servers"]) == (2, 2)


def test_a_request_that_breaks_a_healthy_server_is_one_error(start):
    engine, servers = start(3, timeout_seconds=30.0)
    policy = make_adapter()
    engine.load_policy(policy)
    for server in servers:
        serve = server._serve
        server._serve = lambda path, body, serve=serve: (
            (500, {}) if body.get("token_ids") == PROMPTS[2] else serve(path, body)
        )
    found = engine.generate(PROMPTS, SAMPLING, range(8))
    assert [bool(one.error) for one in found] == [place == 2 for place in range(8)]
    assert engine.metrics["engine/servers"] == 3


def test_a_server_that_hangs_costs_its_attempts_once(start):
    engine, servers = start(2, timeout_seconds=0.5, concurrency=2)
    engine.load_policy(make_adapter())
    servers[1].fault = lambda path, number: HANG if path == GENERATE else None
    started = time.perf_counter()
    found = engine.generate(PROMPTS * 8, SAMPLING, range(64))
    assert not any(one.error for one in found)
    assert time.perf_counter() - started < 8  # two attempts of half a second, where 32 requests may have wanted it


def test_requests_that_no_server_answers_count_as_done(start):
    engine, (server,) = start(timeout_seconds=30.0)
    engine.load_policy(make_adapter())
    server.fault = lambda path, number: DROP if path == GENERATE else None
    heard = []
    found = engine.generate(PROMPTS, SAMPLING, range(8), lambda done, total, what, **_: heard.append((done, total)))
    assert all(one.error for one in found)
    assert heard[-1] == (8, 8)
