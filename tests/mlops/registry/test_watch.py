"""A server that follows promotions and rollbacks; engines are small servers."""

import asyncio
import logging
import threading

import httpx
import pytest

from mlops.registry.client import NamedVersion
from mlops.registry.proxy import Serving
from mlops.registry.server import Watch
from rlft.errors import EngineError
from tests.mlops.registry.small_app import backend, proxied
from tests.rlft.engines.chat_servers import ASKED, ChatServer

BODY = {"model": "small", "messages": [{"role": "user", "content": "Hi"}]}


class Registry:
    """What `champion` names; away where that is `None`."""

    def __init__(self):
        self.champion = "1"

    def find(self):
        if self.champion is None:
            raise ConnectionError("nobody listens there")
        return NamedVersion("small", self.champion, f"hash-{self.champion}", None, None)


@pytest.fixture
def engine():
    with ChatServer(lambda body, number: body["model"]) as server:
        yield server


@pytest.fixture
def log(caplog):
    """What was logged, each entry as a line."""
    caplog.set_level(logging.INFO, "mlops")
    return lambda: [record.getMessage() for record in caplog.records if record.name.startswith("mlops.registry")]


def test_a_registry_that_is_away_is_told_once_and_nothing_ends(engine, log):
    registry, serving = Registry(), Serving(backend(engine), "vllm", False)
    watch = Watch(serving, registry.find, lambda *_: pytest.fail("it loads"), threading.Event())

    async def look(champion):
        registry.champion = champion
        await watch.look()
        await watch.look()

    asyncio.run(look(None))
    assert log() == ["the registry does not answer, and version 1 is served on: nobody listens there"]
    asyncio.run(look("1"))
    asyncio.run(look(None))
    assert len(log()) == 2


def test_following_drops_no_request_and_frees_the_old_version_after_its_last(log):
    release = threading.Event()

    def slow(body, number):
        if body.get("slow"):
            release.wait(30)
        return "one"

    with ChatServer(slow) as first, ChatServer(lambda body, number: "two") as second:
        registry, serving = Registry(), Serving(backend(first), "vllm", True)
        old, new = serving.current, backend(second, "2")
        watch = Watch(serving, registry.find, lambda running, found, stop: new, threading.Event())
        with proxied(serving) as url, httpx.Client(trust_env=False, timeout=60) as client:
            answers = []
            asked = threading.Thread(
                target=lambda: answers.append(client.post(url + ASKED, json=BODY | {"slow": True}))
            )
            asked.start()
            while not first.bodies:
                pass
            registry.champion = "2"

            async def follow():
                await watch.look()
                assert serving.current is new
                during = await asyncio.to_thread(client.post, url + ASKED, json=BODY)
                assert during.json()["choices"][0]["message"]["content"] == "two"
                assert during.headers["rlft-version"] == "2"
                await asyncio.sleep(0.5)
                assert not old.child.freed  # its request is not answered yet
                release.set()
                while not old.child.freed:
                    await asyncio.sleep(0.01)

            asyncio.run(asyncio.wait_for(follow(), 60))
            asked.join()
    (answer,) = answers
    assert answer.json()["choices"][0]["message"]["content"] == "one"
    assert answer.headers["rlft-version"] == "1"
    assert log() == [
        "version 1 is served on until version 2 is loaded",
        "version 2 of small is served",
    ]


def test_a_version_that_cannot_be_loaded_is_told_and_not_tried_again(engine, log):
    registry, serving = Registry(), Serving(backend(engine), "vllm", True)
    tried = []

    def load(running, found, stop):
        tried.append(found.version)
        raise EngineError("vLLM did not start")

    watch = Watch(serving, registry.find, load, threading.Event())
    registry.champion = "2"

    async def look():
        for _ in range(3):
            await watch.look()

    asyncio.run(look())
    assert tried == ["2"]
    assert serving.current.version.number == "1"
    assert log()[-1] == "version 2 cannot be served, and 1 is served on: vLLM did not start"
