"""Classes written for the three methods elsewhere run as they are, through whole rounds."""

import json
import string
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rlft.config import HarnessConfig, RewardConfig
from rlft.engines.base import Sampling
from rlft.environments.contract.loading import load_environment
from rlft.environments.fingerprints import environment_fingerprints
from rlft.errors import EnvironmentSetupError
from rlft.harness.attempt import Attempt
from rlft.harness.rollout import run_attempts
from rlft.rewards.audit.environment import check_environment
from rlft.rewards.audit.rewards import GOLD_NEEDS_TOOLS
from rlft.rewards.scoring import score_rollouts
from rlft.types import Rollouts
from tests.factories import make_policy, make_task
from tests.rlft.attempts import audited
from tests.rlft.environments.elsewhere import Clerk, Naturalist, Remote, Shelf, Stopwatch
from tests.rlft.harness.test_turns import Script

NOTES = {"Otter": "swims in the river", "Heron": "stands in the river", "Marten": "climbs trees"}


@pytest.fixture
def shelf(tmp_path):
    (tmp_path / "notes.json").write_text(json.dumps(NOTES))
    return tmp_path / "notes.json"


def call(name, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def round_of(environment, lines, answer):
    """Rollouts and rewards of a task whose samples say these lines, turn by turn."""
    task = make_task("t", "1+1=", answer)
    policy = make_policy(max_position_embeddings=8192, characters=string.printable)
    attempts = [Attempt(f"r{place}", task, place, 0, place) for place in range(len(lines))]
    rollouts = run_attempts(
        attempts, environment, policy, Script(dict(enumerate(lines))), Sampling(1.0, 200),
        environment_fingerprint="e", harness=HarnessConfig(tool_timeout_seconds=5.0),
    )  # fmt: skip
    rewards = score_rollouts(Rollouts(tuple(rollouts)), {"t": task}, environment, RewardConfig(timeout_seconds=5.0))
    return rollouts, rewards.rows


def told(rollout):
    return [message["content"] for message in rollout.messages if message["role"] == "tool"]


def test_a_search_with_plain_parameters_and_a_client(shelf):
    environment = Naturalist(Shelf(str(shelf)))
    lines = [
        [call("search", query="river"), "done"],
        [call("search", query="river", mode="text", limit=1), "done"],
        [call("search", mode="auto"), call("search", query="trees"), "done"],
        [call("search", query="river", limit="1"), call("search", query="river", where="here"), "done"],
    ]
    rollouts, rewards = round_of(environment, lines, ["Otter", "Heron"])
    assert all(rollout.error is None for rollout in rollouts)
    notes = [{"title": title, "text": NOTES[title]} for title in ("Otter", "Heron")]
    assert [json.loads(told(rollout)[0]) for rollout in rollouts[:2]] == [notes, notes[:1]]
    assert told(rollouts[2])[0] == "error: KeyError: 'query'"  # the tool's own error, in the tool's own words
    assert told(rollouts[3])[0].startswith("error: TypeError: descriptor '__index__'")  # a text stays a text
    assert told(rollouts[3])[1].startswith("error: wrong arguments: search: Additional properties are not allowed")
    assert [rollout.tool_errors for rollout in rollouts] == [0, 0, 1, 2]
    assert [reward.parts for reward in rewards] == [
        {"recall": 1.0, "asked": 1.0},
        {"recall": 0.5, "asked": 1.0},  # one of two
        {"recall": 0.0, "asked": 1.0},  # only the marten
        {"recall": 0.0, "asked": 1.0},
    ]
    assert dict(environment.asked) == {"r0": 1, "r1": 1, "r2": 2, "r3": 1}  # an unknown argument reaches no tool


def test_the_audit_does_not_take_an_answer_without_calls_for_its_gold(shelf):
    tasks = [
        make_task(f"t{n}", prompt="Who lays eggs?", answer=answer) for n, answer in enumerate(("hen", "owl", "hen"))
    ]
    report = audited(tasks, Naturalist(shelf), timeout_seconds=5.0)
    assert report.passed, report.text()
    assert GOLD_NEEDS_TOOLS.finding in report.findings
    assert report.attacks["gold"].count == 0
    checked = check_environment(Naturalist(shelf), tasks)
    assert [problem.split(":")[0] for problem in checked.problems] == ["gold_completion"]
    assert "define gold_completion" in checked.problems[0]


def test_an_answer_without_calls_that_is_paid_in_full_is_still_an_attack(shelf):
    class Gullible(Naturalist):
        async def compute_reward(self, completion, ground_truth):
            return 1.0 if "know" in completion.text else 0.0

    tasks = [make_task(f"t{n}", prompt="Who lays eggs?", answer=answer) for n, answer in enumerate(("hen", "owl"))]
    report = audited(tasks, Gullible(shelf), timeout_seconds=5.0)
    assert not report.passed
    assert any("constant is full" in finding for finding in report.findings)


def test_plain_methods_and_one_number_as_the_score():
    rollouts, rewards = round_of(
        Clerk(), [[call("price", article="tea"), "3"], [call("price", article="salt"), "3 "]], 3
    )
    assert rollouts[0].messages[0] == {"role": "system", "content": Clerk.system_prompt}
    assert [told(rollout) for rollout in rollouts] == [["3"], ["error: KeyError: 'salt'"]]
    assert [(reward.parts, reward.solved) for reward in rewards] == [({"reward": 1.0}, True), ({"reward": 0.0}, False)]


def test_a_dataclass_with_tools_that_take_nothing():
    environment = load_environment("tests.rlft.environments.elsewhere:Stopwatch", {"step": 7})
    (rollout,), (reward,) = round_of(environment, [[call("tick") + call("tick"), call("read"), "14"]], "14")
    assert isinstance(environment, Stopwatch)
    assert told(rollout) == ["null", "null", '{"seconds": 14}']
    assert reward.parts == {"right": 1.0}


ADDRESS = "tests.rlft.environments.elsewhere"


def test_a_config_gives_a_constructor_its_client(shelf):
    kwargs = {"client": {"_target_": f"{ADDRESS}:Shelf", "path": str(shelf)}}
    environment = load_environment(f"{ADDRESS}:Naturalist", kwargs)
    assert isinstance(environment.client, Shelf)
    _, (reward,) = round_of(environment, [[call("search", query="trees"), "done"]], ["Marten"])
    assert reward.parts == {"recall": 1.0, "asked": 1.0}


CLIENT = """
class Client:
    def __init__(self, notes, inner=None):
        self.notes, self.inner = notes, inner

    def search(self, query, mode, limit):
        return [{"title": title} for title in self.notes if query in title][:limit]
"""


@pytest.mark.slow
@pytest.mark.parametrize("edit", [("[:limit]", "[:limit + 1]"), ("query in title", "title in query")])
def test_an_edited_client_is_another_harness(tmp_path, monkeypatch, edit):
    monkeypatch.chdir(tmp_path)
    prints = []
    for source in (CLIENT, f"# a comment\n{CLIENT}", CLIENT.replace(*edit)):
        (tmp_path / "lookup.py").write_text(source)
        inner = {"_target_": "lookup.py:Client", "notes": []}
        kwargs = {"client": {"_target_": "lookup.py:Client", "notes": ["Otter"], "inner": [inner]}}
        environment = load_environment(f"{ADDRESS}:Naturalist", kwargs)
        assert environment.client.inner[0].notes == []
        prints.append(environment_fingerprints(environment, f"{ADDRESS}:Naturalist", kwargs))
    assert prints[0] == prints[1]
    assert prints[0].harness != prints[2].harness
    assert prints[0].reward != prints[2].reward


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ({"_target_": f"{ADDRESS}:Shelv"}, "environment.kwargs: _target_.*there is no function 'Shelv'"),
        ({"_target_": 3}, "'3' does not name"),
        ({"_target_": f"{ADDRESS}:Shelf"}, "Naturalist cannot be built: TypeError: .*'path'"),
        ([{"_target_": f"{ADDRESS}:Shelf", "path": "no"}], "FileNotFoundError"),
    ],
)
def test_a_client_that_cannot_be_made(client, text):
    with pytest.raises(EnvironmentSetupError, match=text):
        load_environment(f"{ADDRESS}:Naturalist", {"client": client})


@pytest.fixture
def server():
    """A server that keeps its connections, by its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            body = f"page {self.path}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=partial(httpd.serve_forever, poll_interval=0.01), daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()


def test_an_async_client_serves_one_round_after_the_other(server):
    environment = load_environment(f"{ADDRESS}:Remote", {"address": server})
    assert isinstance(environment, Remote)
    for name in ("one", "two", "three"):
        rollouts, rewards = round_of(environment, [[call("fetch", path=f"/{name}"), "done"]] * 3, f"/{name}")
        assert [told(rollout) for rollout in rollouts] == [[f"page /{name}"]] * 3
        assert [reward.parts for reward in rewards] == [{"right": 1.0}] * 3
