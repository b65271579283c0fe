"""The attempts of a group are compared in one question, in an order of its own, and all get an answer or none does."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from rlft.config import RewardConfig
from rlft.engines import server_requests
from rlft.outcome import Failure
from rlft.rewards.scoring import score_rollouts
from rlft.rewards.specification.graders.judged import shared_lines
from rlft.types import Rollouts
from tests.rlft.attempts import answered, audited, make_rollout, make_task
from tests.rlft.engines.chat_servers import ChatServer, completion
from tests.rlft.rewards.judges.judged import TASK, judged, scored

RULER = {"best": {"says": "It is better than the others.", "grader": {"type": "ruler"}}}
OTHER = make_task("u", "The capital of Chile?", "Santiago")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(server_requests, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(server_requests, "_LONGEST_WAIT", 0.01)


def shown(body):
    """The attempts that the judge was shown, in its order."""
    return re.findall(
        r"^BEGIN [0-9a-f]{16}(?: \d+)?\n(.*?)\nEND", body["messages"][-1]["content"], re.DOTALL | re.MULTILINE
    )


def by_length(body, number=0):
    """A judge that likes short attempts: 1 for the shortest."""
    lengths = [len(text) for text in shown(body)]
    scores = [min(lengths) / length for length in lengths]
    said = {"scores": scores} if len(scores) > 1 else {"score": scores[0]}
    return completion(json.dumps({"why": "so", **said}), usage={"prompt_tokens": 100, "completion_tokens": 5})


def test_a_group_is_one_question_and_each_attempt_gets_its_own_score():
    with ChatServer(by_length) as server:
        rows = scored(judged(server, RULER), "12345678", "1234", "12")
        [body] = server.bodies
    assert [row.total for row in rows] == [0.25, 0.5, 1.0]  # 2 / 8, 2 / 4, 2 / 2
    assert sorted(shown(body)) == ["12", "1234", "12345678"]
    assert "The capital of Peru?" in body["messages"][1]["content"]
    assert '"scores": [N1, N2, N3]}, each a number from 0 to 1' in body["messages"][0]["content"]
    assert body["response_format"]["json_schema"]["schema"]["properties"]["scores"] == {
        "type": "array",
        "items": {"type": "number"},
    }
    assert sum(row.judging.calls for row in rows) == 1
    assert sum(row.judging.cached for row in rows) == 2


def test_equal_attempts_are_shown_once_and_get_equal_scores():
    with ChatServer(by_length) as server:
        rows = scored(judged(server, RULER), "1234", "12", "1234", "12")
        assert [len(shown(body)) for body in server.bodies] == [2]
    assert [row.total for row in rows] == [0.5, 1.0, 0.5, 1.0]


def test_the_order_is_that_of_the_seed_and_not_that_of_the_group():
    texts = [str(number) * 3 for number in range(8)]

    def order(seed, given):
        criteria = {"best": {**RULER["best"], "grader": {"type": "ruler", "seed": seed}}}
        with ChatServer(by_length) as server:
            scored(judged(server, criteria), *given)
            return shown(server.bodies[0])

    first = order(0, texts)
    assert sorted(first) == texts
    assert first != texts
    assert order(0, texts[::-1]) == first
    assert order(1, texts) != first


def test_each_task_is_a_group_of_its_own():
    rollouts = Rollouts((*answered(TASK, "1234", "12"), *answered(OTHER, "123", "1")))
    with ChatServer(by_length) as server:
        environment = judged(server, RULER)
        rows = score_rollouts(rollouts, {"t": TASK, "u": OTHER}, environment, RewardConfig(timeout_seconds=20)).rows
        assert sorted(sorted(shown(body)) for body in server.bodies) == [["1", "123"], ["12", "1234"]]
    assert [row.total for row in rows] == pytest.approx([0.5, 1.0, 1 / 3, 1.0])


@pytest.mark.slow
@pytest.mark.parametrize("said", ["nonsense", '{"scores": [1]}', '{"scores": [1, 2]}', '{"scores": [1, true]}', 400])
def test_a_question_that_fails_is_an_error_of_all_attempts_and_is_asked_once(said):
    with ChatServer(lambda body, number: said if number <= (2 if said == 400 else 1) else by_length(body)) as server:
        environment = judged(server, RULER)
        rows = scored(environment, "1234", "12", "1234")
        assert [row.total for row in rows] == [None] * 3
        assert len({str(row.error) for row in rows}) == 1
        assert len(server.bodies) == (2 if said == 400 else 1)  # where it was refused, with and without a schema


def test_votes_are_averaged_attempt_by_attempt():
    def answer(body, number):
        scores = {"1234": body["seed"] / 2, "12": 1.0}
        return json.dumps({"why": "so", "scores": [scores[text] for text in shown(body)]})

    with ChatServer(answer) as server:
        rows = scored(judged(server, RULER, votes=3), "1234", "12")
        assert len(server.bodies) == 3
    assert [row.total for row in rows] == [0.5, 1.0]  # (0 + 0.5 + 1) / 3


def test_what_all_attempts_begin_with_is_shown_once():
    def attempt(answer, number):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": {"at": "Peru"}}}
        return (
            *TASK.prompt,
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "Its capital is Lima.", "name": "look", "tool_call_id": f"c{number}"},
            {"role": "assistant", "content": answer},
        )

    rows = [make_rollout(TASK, *attempt(text, n), sample=n) for n, text in enumerate(("Lima", "It is Lima."))]
    with ChatServer(by_length) as server:
        found = score_rollouts(
            Rollouts(tuple(rows)), {"t": TASK}, judged(server, RULER), RewardConfig(timeout_seconds=20)
        ).rows
        [body] = server.bodies
    assert [row.total for row in found] == [1.0, pytest.approx(4 / 11)]
    said = body["messages"][-1]["content"]
    assert said.count("Its capital is Lima.") == said.count('"name": "look", "arguments": {"at": "Peru"}') == 1
    assert ' shared\n{"role": "assistant", "content": "", "tool_calls": [{"name": "look"' in said
    assert sorted(shown(body)) == ["It is Lima.", "Lima"]
    assert "What all attempts begin with" in body["messages"][0]["content"]


def test_a_transcript_that_was_written_is_not_one_that_took_place():
    call = {"id": "c", "type": "function", "function": {"name": "pay", "arguments": {"id": 7}}}
    real = (
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "paid", "name": "pay", "tool_call_id": "c"},
        {"role": "assistant", "content": "It is paid."},
    )
    with ChatServer(by_length) as server:

        def told(*attempts):
            rows = [make_rollout(TASK, *TASK.prompt, *each, sample=n) for n, each in enumerate(attempts)]
            score_rollouts(Rollouts(tuple(rows)), {"t": TASK}, judged(server, RULER), RewardConfig(timeout_seconds=20))
            return shown(server.bodies[-1])

        [lines] = [each for each in told(real, ({"role": "assistant", "content": "no"},)) if "paid" in each]
        written = ({"role": "assistant", "content": lines},)  # just what the judge reads of the real one
        assert len(set(told(real, written))) == 2
    assert [json.loads(line)["role"] for line in lines.split("\n")] == ["assistant", "tool", "assistant"]


def test_attempts_that_end_with_other_calls_are_others():
    def attempt(number):
        call = {"id": "c", "type": "function", "function": {"name": "pay", "arguments": {"id": number}}}
        return make_rollout(
            TASK, *TASK.prompt, {"role": "assistant", "content": "", "tool_calls": [call]}, sample=number
        )

    with ChatServer(by_length) as server:
        score_rollouts(
            Rollouts((attempt(0), attempt(1))), {"t": TASK}, judged(server, RULER), RewardConfig(timeout_seconds=20)
        )
        assert ['"id": 0' in each for each in sorted(shown(server.bodies[-1]))] == [True, False]


def test_the_last_message_is_never_shared():
    assert shared_lines([[("assistant", "a")], [("assistant", "a")]]) == 0
    assert shared_lines([[("a", "x"), ("a", "y")], [("a", "x"), ("a", "y"), ("a", "z")]]) == 1
    assert shared_lines([[("a", "x"), ("a", "y")], [("a", "z"), ("a", "y")]]) == 0


def test_a_group_that_is_too_long_for_the_judge_is_an_error_and_not_asked():
    criteria = {"best": {**RULER["best"], "grader": {"type": "ruler", "max_characters": 1000}}}
    with ChatServer(by_length) as server:
        rows = scored(judged(server, criteria), "a" * 600, "b" * 401)
        assert server.bodies == []
        assert {row.total for row in rows} == {None}
        assert "1,001 characters together, more than max_characters=1,000" in str(rows[0].error)
        assert scored(judged(server, criteria), "a" * 600, "b" * 400)[0].total is not None


def test_attempts_that_failed_are_not_compared():
    one, other, failed = answered(TASK, "1234", "12", "1")
    rollouts = Rollouts((one, other, replace(failed, error=Failure("engine", "died"))))
    with ChatServer(by_length) as server:
        rows = score_rollouts(rollouts, {"t": TASK}, judged(server, RULER), RewardConfig(timeout_seconds=20)).rows
    assert [row.total for row in rows] == [0.5, 1.0, None]


@pytest.mark.slow
def test_a_worker_process_compares_too():
    with ChatServer(by_length) as server:
        rows = scored(judged(server, RULER), "1234", "12", isolation="process", processes=2, concurrency=2)
        assert len(server.bodies) == 1
    assert [row.total for row in rows] == [0.5, 1.0]


def test_an_attempt_alone_is_scored_alone():
    with ChatServer(by_length) as server:
        [row] = scored(judged(server, RULER), "1234")
        assert '"score": N}' in server.bodies[0]["messages"][0]["content"]
    assert row.total == 1.0


@pytest.mark.slow
def test_the_audit_shows_each_attack_beside_the_gold_of_its_task():
    tasks = [make_task(f"t{number}", f"What is {number}+{number}?", str(2 * number)) for number in range(50, 54)]
    golds = {str(2 * number) for number in range(50, 54)}

    def answer(body, number):
        wanted = str(2 * int(re.findall(r"What is (\d+)", body["messages"][1]["content"])[0]))
        scores = [float(text == wanted) for text in shown(body)]
        return json.dumps({"why": "so", **({"scores": scores} if len(scores) > 1 else {"score": scores[0]})})

    with ChatServer(answer) as server:
        report = audited(tasks, judged(server, RULER), timeout_seconds=20)
        groups = [shown(body) for body in server.bodies]
    assert report.passed, report.text()
    assert (report.attacks["gold"].mean, report.attacks["empty"].mean) == (1.0, 0.0)
    assert {len(group) for group in groups} == {1, 2}
    assert all(golds & set(group) for group in groups)
