"""A vLLM for a judge is started once, found by whoever asks, and ended. A program acts it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass

import psutil
import pytest

from rlft.config.environment import PLAIN
from rlft.config.section import SPECIFICATION
from rlft.engines import serving
from rlft.environments.contract.loading import load_environment
from rlft.errors import EngineError, EnvironmentSetupError, RewardError
from rlft.rewards.canaries import meet_canaries
from rlft.rewards.judges import servers
from rlft.rewards.judges.answers import Answers
from rlft.rewards.judges.chat_judge import ChatJudge
from rlft.rewards.judges.servers import KEY_VARIABLE, VARIABLE, JudgeServers, judging, running, weights_of
from rlft.rewards.specification.grader import Helpers
from rlft.rewards.specification.judge import JudgeSettings, JudgeVllm, Question, billed
from rlft.rewards.specification.model import Specification
from rlft.types import Judging
from tests.rlft.rewards.judges.judge_models import save_judge
from tests.rlft.rewards.judges.judged import KIND, TASK, scored

ACTOR = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer(200, {})
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != "Bearer " + os.environ["VLLM_API_KEY"]:
            return self.answer(401, {})
        said = {"role": "assistant", "content": json.dumps({"why": asked["model"], "score": 0.25})}
        self.answer(200, {"model": "x", "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]})
    def log_message(self, *_): pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
QUESTION = Question((("user", "Is it kind?"),), ("hello",))


@pytest.fixture
def model(tmp_path):
    return save_judge(tmp_path / "model")


@pytest.fixture
def acted(monkeypatch):
    """The commands that were started; a small program acts vLLM."""
    started = []

    def command(settings, revision, folder, *, port):
        started.append((settings.model, revision, port))
        return [sys.executable, "-c", ACTOR, str(port)], {}

    monkeypatch.setattr(serving, "serve_judge_command", command)
    monkeypatch.setattr(servers, "is_installed", lambda: True)
    for name in (VARIABLE, KEY_VARIABLE):
        monkeypatch.setenv(name, "")
    monkeypatch.delenv(KEY_VARIABLE)
    return started


def settings_of(model, **more):
    return JudgeSettings(engine="vllm", model=str(model), attempts=1, **more)


def test_it_is_started_once_for_equal_settings_and_ended(acted, model):
    settings = settings_of(model)
    with JudgeServers() as own:
        own.start(settings)
        own.start(settings_of(model, votes=3, max_tokens=64))  # which the same server answers
        assert len(acted) == 1
        own.start(settings_of(model, vllm=JudgeVllm(dtype="float32")))
        assert len(acted) == 2
        found = running(settings)
        assert found is not None
        assert (found.address, found.weights) == (f"http://127.0.0.1:{acted[0][2]}/v1", weights_of(settings))
        processes = [psutil.Process(child.pid) for child in own._children.values()]
        folders = [child.log.parent for child in own._children.values()]
        answer = asyncio.run(ChatJudge(settings).ask(QUESTION))
        assert (answer.score, answer.why) == (0.25, str(model))
    assert running(settings) is None
    assert not any(process.is_running() for process in processes)
    assert not any(folder.exists() for folder in folders)


def test_the_key_is_made_here_and_hidden(acted, model):
    from rlft.texts.secrets import hide

    with JudgeServers() as own:
        own.start(settings_of(model))
        key = os.environ[KEY_VARIABLE]
        assert len(key) >= 32
        assert hide(f"it is {key}") == "it is ***"


@pytest.mark.slow
def test_attempts_are_scored_by_it_also_in_worker_processes(acted, model):
    spec = {"criteria": KIND, "judge": {"engine": "vllm", "model": str(model), "attempts": 1}}
    environment = load_environment(PLAIN, {SPECIFICATION: json.dumps(spec)})
    with judging(environment):
        assert [row.total for row in scored(environment, "a", "b")] == [0.25, 0.25]
        from rlft.config.workers import Workers

        apart = scored(environment, "c", workers=Workers(isolation="process", processes=1))
        assert [(row.total, row.error) for row in apart] == [(0.25, None)]
    (lost,) = scored(load_environment(PLAIN, {SPECIFICATION: json.dumps(spec)}), "d")
    assert lost.total is None
    assert "no vLLM runs for the judge" in str(lost.error)
    assert TASK.answer == "Lima"


def test_an_endpoint_starts_nothing(acted):
    with JudgeServers() as own:
        own.start(JudgeSettings(endpoint="http://127.0.0.1:1/v1", model="small"))
    assert acted == []
    assert weights_of(JudgeSettings(endpoint="http://127.0.0.1:1/v1", model="small")) is None


def test_one_that_does_not_start_says_its_last_words_and_leaves_nothing(monkeypatch, acted, model, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    fails = [sys.executable, "-c", "print('ValueError: no room for the cache'); raise SystemExit(3)"]
    monkeypatch.setattr(serving, "serve_judge_command", lambda *_, **__: (fails, {}))
    with JudgeServers() as own, pytest.raises(EngineError, match=r"exit code 3[\s\S]*no room for the cache") as raised:
        own.start(settings_of(model))
    assert "cache_gib" in raised.value.fix
    assert running(settings_of(model)) is None
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def test_an_interrupt_while_it_starts_ends_it(monkeypatch, acted, model):
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(serving, "serve_judge_command", lambda *_, **__: (sleeps, {}))
    own = JudgeServers()
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    with pytest.raises(KeyboardInterrupt), own:
        own.start(settings_of(model))
    assert own._children == {}


def test_without_vllm_it_is_told_before_anything_is_started(monkeypatch, acted, model):
    monkeypatch.setattr(servers, "is_installed", lambda: False)
    with JudgeServers() as own, pytest.raises(EngineError, match="vLLM is not installed"):
        own.start(settings_of(model))
    assert acted == []


def test_a_judge_whose_vllm_nobody_has_started_is_an_error_and_never_a_0(monkeypatch, model):
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(RewardError, match="no vLLM runs for the judge"):
        asyncio.run(ChatJudge(settings_of(model)).ask(QUESTION))


def fingerprint(model, **more):
    spec = {"criteria": KIND, "judge": {"engine": "vllm", "model": str(model), **more}}
    return load_environment(PLAIN, {SPECIFICATION: json.dumps(spec)}).reward_fingerprint()


def test_other_weights_in_the_same_folder_are_another_reward(model):
    before = fingerprint(model)
    assert fingerprint(model) == before
    assert fingerprint(model, vllm={"cache_gib": 2.0}) == before  # where it has more room it says the same
    assert fingerprint(model, vllm={"dtype": "float32"}) != before
    save_judge(model, score=1.0)
    assert fingerprint(model) != before


def test_a_model_that_is_not_there_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(EnvironmentSetupError, match=r"judge is no folder, and not on the hub"):
        weights_of(settings_of(tmp_path / "none"))


def test_votes_and_canaries_of_other_weights_are_not_those_of_these(acted, model, tmp_path):
    settings = settings_of(model)
    case = {"attempt": "Lima", "item": {"prompt": "Peru?"}, "at_least": 0, "reason": "It is right."}
    content = {"criteria": KIND, "cases": [case], "judge": settings.model_dump()}
    specification = Specification.model_validate_json(json.dumps(content))

    @billed
    def asked():
        with JudgeServers() as own:
            own.start(settings)
            asyncio.run(ChatJudge(settings, Answers(tmp_path)).ask(QUESTION))
            [met], _ = meet_canaries(specification, Helpers(), tmp_path)
        return Asked(len(met.now))

    first, second = asked(), asked()
    save_judge(model, score=1.0)
    third = asked()
    votes = [(each.judging.calls, each.judging.cached) for each in (first, second, third)]
    assert votes == [(1, 0), (0, 1), (1, 0)]
    # What is met for the first time has nothing to be compared with; the second start has asked once more.
    assert [each.later for each in (first, second, third)] == [0, 1, 0]


@dataclass(frozen=True)
class Asked:
    later: int
    judging: Judging | None = None
