"""Tables and back, bit for bit."""

import dataclasses
import io
import struct

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.messages import make_call
from rlft.outcome import Failure
from rlft.types import SPLITS, Judging, Reward, Rewards, Rollouts, Task, TaskSet, storage
from tests.factories import make_reward, make_rollout, make_task, make_task_set, user

texts = st.one_of(st.text(), st.sampled_from(["", "\u2028", "\x00", "null", '"', "\U0001f600", "a\r\nb", "\ufeff"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)
messages = st.lists(st.fixed_dictionaries({"role": texts, "content": texts}), min_size=1, max_size=3).map(tuple)
names = st.sampled_from(["setup", "rollout", "größe"])
failures = st.none() | texts.map(Failure.read) | st.builds(Failure, where=names, why=texts)
any_float32 = st.integers(0, 2**32 - 1).map(lambda bits: struct.unpack("<f", struct.pack("<I", bits))[0])
special = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-45, -1.1754944e-38, 3.4028235e38]


@st.composite
def rollouts(draw):
    size = draw(st.integers(0, 6))
    return dataclasses.replace(
        make_rollout(),
        rollout_id=draw(texts),
        messages=draw(messages),
        token_ids=np.asarray(draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=size, max_size=size)), np.int32),
        loss_mask=np.asarray(draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=bool),
        logprobs=np.asarray(
            draw(st.lists(any_float32 | st.sampled_from(special), min_size=size, max_size=size)), dtype=np.float32
        ),
        state=draw(json_objects),
        error=draw(failures),
        seconds=draw(st.floats(allow_nan=False)),
        seed=draw(st.integers(0, 2**63 - 1)),
        truncated=draw(st.booleans()),
    )


def through_a_file(table):
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    buffer.seek(0)
    pandas.read_parquet(buffer)
    buffer.seek(0)
    return pq.read_table(buffer)


def plain(rollout):
    """All fields, arrays as (type, bytes)."""
    values = {field.name: getattr(rollout, field.name) for field in dataclasses.fields(rollout)}
    return {k: (v.dtype.str, v.tobytes()) if isinstance(v, np.ndarray) else v for k, v in values.items()}


@settings(max_examples=60, deadline=None)
@given(st.lists(rollouts(), max_size=4), st.floats(0, 1e9))
@pytest.mark.slow
def test_rollouts_come_back_bit_for_bit(rows, seconds):
    stored = Rollouts(tuple(rows), seconds=seconds)
    found = storage.rollouts_from_table(through_a_file(storage.rollouts_to_table(stored)))
    assert found.seconds == seconds
    assert [plain(r) for r in found] == [plain(r) for r in rows]
    before, after = (storage.hash_rows(r.rows, storage.ROLLOUT_SCHEMA) for r in (stored, found))
    assert before == after


tasks = st.builds(
    Task,
    id=texts,
    environment=texts,
    prompt=messages,
    answer=json_values,
    info=json_objects,
    split=st.sampled_from(SPLITS),
    group=texts,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(tasks, max_size=4).map(tuple), json_objects)
def test_tasks_come_back(rows, notes):
    stored = TaskSet(tasks=rows, fingerprint="f", notes=notes)
    assert storage.tasks_from_table(through_a_file(storage.tasks_to_table(stored))) == stored


rewards = st.builds(
    Reward,
    rollout_id=texts,
    task_id=texts,
    total=st.none() | st.floats(allow_nan=False),
    parts=st.dictionaries(texts, st.none() | st.floats(allow_nan=False), max_size=3),
    solved=st.booleans(),
    answer=st.none() | texts,
    error=failures,
    seconds=st.floats(allow_nan=False),
    steps=st.dictionaries(texts, st.lists(st.none() | st.floats(allow_nan=False), max_size=3).map(tuple), max_size=2),
    judging=st.none() | st.builds(Judging, calls=st.integers(0, 9)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(rewards, max_size=4).map(tuple), st.dictionaries(texts, st.floats(allow_nan=False), max_size=3))
def test_rewards_come_back(rows, weights):
    ranges = {"reward": (-10.0, 0.1)}
    stored = Rewards(rows, weights, 0.1 + 0.2, ranges, {"read": -0.5})
    assert storage.rewards_from_table(through_a_file(storage.rewards_to_table(stored))) == stored


def test_arguments_of_a_call_come_back_in_the_order_in_which_they_were_written():
    call = make_call("departure", {"stop": "Guum", "hour": 4}, "1")
    rollout = make_rollout(messages=(user("?"), {"role": "assistant", "content": "", "tool_calls": [call]}))
    (again,) = storage.rollouts_from_table(storage.rollouts_to_table(Rollouts((rollout,))))
    assert list(again.messages[1]["tool_calls"][0]["function"]["arguments"]) == ["stop", "hour"]


def test_messages_of_calls_that_could_not_be_read_come_back_as_they_were():
    broken = {"text": '<tool_call>{"a\n"', "error": "tool call 2 is not JSON", "position": 13}
    asked = {
        "role": "assistant",
        "content": "",
        "tool_calls": [make_call("f", {}, "")],
        "invalid_tool_calls": [broken, {"text": "", "error": "e", "position": None}],
    }
    rollout = make_rollout(messages=(user("?"), asked, {"role": "tool", "content": "error: is not JSON"}))
    (back,) = storage.rollouts_from_table(through_a_file(storage.rollouts_to_table(Rollouts((rollout,)))))
    assert back.messages == rollout.messages


def test_a_mark_of_a_failed_call_is_all_that_counts():
    told = ({"role": "tool", "content": "error: none"}, {"role": "tool", "content": "error: e", "failed": True})
    new = dataclasses.replace(make_rollout(messages=(user("?"), *told)), tool_errors=1)
    (back,) = storage.rollouts_from_table(through_a_file(storage.rollouts_to_table(Rollouts((new,)))))
    assert back.messages == new.messages


def test_none_is_not_empty():
    rows = [make_task(answer=answer) for answer in (None, "", "null", 0, False, [], {})]
    found = storage.tasks_from_table(storage.tasks_to_table(make_task_set(*rows)))
    assert [task.answer for task in found.tasks] == [None, "", "null", 0, False, [], {}]
    assert found.tasks[4].answer is False
    scored = Rewards(tuple(make_reward(make_rollout(), 1.0, answer=a) for a in (None, "")), weights={})
    assert [r.answer for r in storage.rewards_from_table(storage.rewards_to_table(scored))] == [None, ""]


def test_pandas_reads_them_as_columns(tmp_path):
    path, failure = tmp_path / "rollouts.parquet", Failure("engine", "gone")
    pq.write_table(storage.rollouts_to_table(Rollouts((make_rollout("a"), make_rollout("b", error=failure)))), path)
    frame = pandas.read_parquet(path)
    assert list(frame.task_id) == ["a", "b"]
    assert list(frame.error.dropna()) == ["engine: gone"]
    assert list(frame.token_ids[0]) == [4, 13, 4, 14, 5, 1]
    assert frame.token_ids[0].dtype == np.int32
    assert frame.logprobs[0].dtype == np.float32


SAME = {"seconds"}
OTHER = {
    "rollout_id": "x",
    "task_id": "x",
    "sample": 9,
    "round": 9,
    "messages": (),
    "token_ids": np.asarray([4, 13, 4, 14, 5, 2], dtype=np.int32),
    "loss_mask": np.asarray([False] * 5 + [True]),
    "logprobs": np.asarray([0, 0, 0, 0, -1, -1.0000001], dtype=np.float32),
    "prompt_length": 3,
    "turns": 2,
    "tool_calls": 1,
    "tool_errors": 1,
    "state": {"a": 1},
    "stop_reason": "length",
    "truncated": True,
    "error": "",
    "seconds": 99.0,
    "policy": "x",
    "sampling": "x",
    "environment": "x",
    "seed": 8,
}


@pytest.mark.parametrize("name", OTHER)
def test_the_hash_of_rollouts_ignores_the_clock_alone(name):
    rows = [make_rollout(), make_rollout(**{name: OTHER[name]})]
    first, second = (storage.hash_rows([row], storage.ROLLOUT_SCHEMA) for row in rows)
    assert (first == second) == (name in SAME)


def test_every_column_has_its_case_above():
    assert set(OTHER) == set(storage.ROLLOUT_SCHEMA.names)
    assert set(OTHER) == {field.name for field in dataclasses.fields(make_rollout())}


def test_the_hash_sees_order_and_number():
    a, b = make_rollout("a"), make_rollout("b")
    hashes = {storage.hash_rows(rows, storage.ROLLOUT_SCHEMA) for rows in ([a, b], [b, a], [a], [a, a], [])}
    assert len(hashes) == 5


def test_the_hash_of_rewards_ignores_the_clock_alone():
    rollout = make_rollout()
    reward = make_reward(rollout, 1.0)

    def digest(**changes):
        return storage.hash_rows([dataclasses.replace(reward, **changes)], storage.REWARD_SCHEMA)

    assert digest(seconds=5.0) == digest()
    others = [{"total": 0.5}, {"parts": {"exact": None}}, {"solved": False}, {"answer": "1"}, {"error": "e"}]
    assert digest() not in {digest(**change) for change in others}


def test_what_judges_were_asked_is_no_part_of_a_hash():
    asked = make_reward(make_rollout(), 1.0, judging=Judging(calls=3, seconds=1.0))
    known = dataclasses.replace(asked, judging=Judging(cached=3))
    one, other = (storage.hash_rows([row], storage.REWARD_SCHEMA) for row in (asked, known))
    assert one == other
