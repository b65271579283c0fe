import asyncio
import gc
import math
import threading
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import rlft
from rlft.config import RewardConfig
from rlft.environments.contract.base import BaseEnv, Context, prompt_messages
from rlft.errors import ConfigError, EnvironmentSetupError, RewardError, TaskError
from rlft.outcome import Failure
from rlft.rewards.rubric import combine
from rlft.rewards.scores import RewardHangs
from rlft.rewards.scoring import score_rollouts
from rlft.training.advantage import step_scores
from rlft.types import Rewards, Rollouts
from rlft.types.storage import rewards_to_table
from tests.rlft.attempts import answered, make_rollout, make_task

TASK, OTHER = make_task("t", "2+2=", "4"), make_task("other", "2+3=", "5")


class Returns(BaseEnv):
    """Returns, or calls, what it was made with."""

    def __init__(self, result):
        self.result = result

    async def compute_reward(self, completion, ground_truth):
        return self.result(completion) if callable(self.result) else self.result


class Plain(BaseEnv):
    def compute_reward(self, completion, ground_truth):
        return {"exact": completion.text == ground_truth}


def score(environment, rollouts=None, *, task=TASK, weights=None, full=None, timeout_seconds=2.0, concurrency=None):
    return score_rollouts(
        rollouts or answered(task, "4"),
        {task.id: task},
        environment,
        RewardConfig(weights=weights or {}, full=full, timeout_seconds=timeout_seconds, concurrency=concurrency),
    )


def only(rewards):
    assert len(rewards) == 1
    return rewards.rows[0]


def test_total_is_the_weighted_sum_in_which_what_does_not_apply_counts_as_the_mean_of_the_rest():
    # 2 * 0.5 + 1 * 1 (no weight given: 1) = 2 of the 3 that apply, which of all 4 is 2 * 4 / 3
    rewards = score(Returns({"a": 0.5, "b": 1, "c": None}), weights={"a": 2.0})
    row = only(rewards)
    assert (row.total, row.solved, row.error) == (pytest.approx(8 / 3), False, None)
    assert row.parts == {"a": 0.5, "b": 1.0, "c": None}
    assert rewards.weights == {"a": 2.0, "b": 1.0, "c": 1.0}


@pytest.mark.parametrize(
    ("parts", "full", "solved"),
    [
        ({"a": 1, "b": 1}, None, True),  # 2 + 1 of 3
        ({"a": 1, "b": None}, None, True),  # 2 of 2: only what applies counts
        ({"a": 1, "b": 0.999}, None, False),
        ({"a": 1, "b": 0.5}, 2.5, True),
        ({"a": 1, "b": 0.4}, 2.5, False),
    ],
)
def test_solved_means_full(parts, full, solved):
    assert only(score(Returns(parts), weights={"a": 2.0}, full=full)).solved is solved


def test_who_is_solved_never_earns_less_than_who_is_not():
    # no citation was asked for, and the answer is right; or one was, and is half right: 2 of 2 and 1.5 of 2
    said = {"solved": {"answer": 1, "cite": None}, "half": {"answer": 1, "cite": 0.5}}
    solved, half = score(Returns(lambda completion: said[completion.text]), answered(TASK, "solved", "half"))
    assert [(row.total, row.solved) for row in (solved, half)] == [(2.0, True), (1.5, False)]


def test_a_penalty_that_does_not_apply_is_not_paid_and_one_that_does_is_paid_once():
    # a right, b not asked for: 2 of 2, minus 0.5 * 1
    weights = {"penalty": -0.5}
    assert only(score(Returns({"a": 1, "b": None, "penalty": 1}), weights=weights)).total == 1.5
    assert only(score(Returns({"a": 1, "b": None, "penalty": None}), weights=weights)).total == 2.0
    lone = only(score(Returns({"a": None, "penalty": 1}), weights=weights))
    assert (lone.total, str(lone.error)) == (
        None,
        "compute_reward: no part with a positive weight applies (parts: {'a': None, 'penalty': 1.0}); what to do: "
        "return a number for a part that is paid (None: is a `return` missing?), 0 where nothing was earned",
    )
    assert only(score(Returns({"penalty": 1}), weights=weights)).total == -0.5


weights_of_parts = st.dictionaries(
    st.sampled_from("abcd"), st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0, 3.0]), min_size=1
)


@given(weights_of_parts, st.data())
def test_totals_of_attempts_at_a_task_can_be_compared(weights, data):
    def draw(scores):
        return {name: data.draw(scores) for name in weights}

    whole = sum(weight for weight in weights.values() if weight > 0)
    perfect = {name: None if left_out else float(weights[name] > 0) for name, left_out in draw(st.booleans()).items()}
    other = draw(st.one_of(st.none(), st.floats(0, 1)))
    try:
        best, less = combine(perfect, weights), combine(other, weights)
    except ValueError:
        assert any(all(p[n] is None for n, w in weights.items() if w > 0) for p in (perfect, other))
        return
    assert best == pytest.approx(whole)
    assert less <= best + 1e-9
    assert combine({**other, "metric": 1.0}, {**weights, "metric": 0.0}) == less


@pytest.mark.parametrize("other", [{"answer": 1, "cite": 0.5}, {"answer": 1, "cite": 0.5, "length": 1}])
def test_attempts_that_name_other_parts_cannot_be_compared(other):
    said = {"one": {"answer": 1}, "two": other, "bad": "no dict"}
    environment, rows = Returns(lambda completion: said[completion.text]), answered(TASK, "one", "bad", "two")
    with pytest.raises(RewardError, match=r"has a part 'cite' and another has none(?s:.)*name 'cite' in every"):
        score(environment, rows)
    metrics = dict.fromkeys(other.keys() - {"answer"}, 0.0)
    assert [row.total for row in score(environment, rows, weights=metrics)] == [1.0, None, 1.0]


def test_an_attempt_that_returned_early_is_not_solved_by_what_little_it_names():
    # of one attempt a task nothing is compared within the task: {"format": 1} would be full by itself
    said = {"early": {"format": 1}, "whole": {"format": 1, "answer": 0}}
    rows = [*answered(TASK, "early"), *answered(OTHER, "whole")]
    with pytest.raises(RewardError, match="'answer'"):
        score_rollouts(
            Rollouts(tuple(rows)),
            {"t": TASK, "other": OTHER},
            Returns(lambda completion: said[completion.text]),
            RewardConfig(timeout_seconds=2.0),
        )


def test_full_is_full_whatever_the_size_of_the_weights():
    environment = Returns({"a": 1, "b": None, "c": 1})
    environment.reward_weights = lambda: {"a": 4872848.6, "b": 3605940.1, "c": 8391546.8}
    assert only(score(environment)).solved


def test_a_penalty_does_not_lower_what_is_full():
    # correct 1 - 0.5 * 1 = 0.5 is not full; correct 1 without the penalty is.
    weights = {"penalty": -0.5}
    assert only(score(Returns({"correct": 1, "penalty": 1}), weights=weights)).solved is False
    assert only(score(Returns({"correct": 1, "penalty": 0}), weights=weights)).solved is True


def test_numbers_of_all_kinds_are_scores():
    parts = {"a": True, "b": np.float32(0.5), "c": np.bool_(False), "d": Fraction(1, 4), "e": np.int64(1)}
    assert only(score(Returns(parts))).parts == {"a": 1.0, "b": 0.5, "c": 0.0, "d": 0.25, "e": 1.0}
    tensors = {"a": torch.tensor(0.5, requires_grad=True), "b": torch.tensor(True), "c": np.array(0.25)}
    assert only(score(Returns(tensors))).parts == {"a": 0.5, "b": 1.0, "c": 0.25}


@pytest.mark.parametrize("number", [0.5, np.float32(0.5), torch.tensor(0.5), Fraction(1, 2)])
def test_a_number_alone_is_the_part_reward(number):
    row = only(score(Returns(number), weights={"reward": 4.0}))
    assert (row.parts, row.total) == ({"reward": 0.5}, 2.0)


def test_plain_and_awaited_rewards_are_both_taken():
    async def slow():
        await asyncio.sleep(0.01)
        return {"exact": 1.0}

    class Awaits(BaseEnv):
        def compute_reward(self, completion, ground_truth):
            return slow()

    assert [row.total for row in score(Plain(), answered(TASK, "4", "5", ""))] == [1.0, 0.0, 0.0]
    assert only(score(Awaits())).total == 1.0


def raising(completion):
    raise KeyError("no such field")


def leaving(completion):
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("result", "cause"),
    [
        (raising, "compute_reward: KeyError: 'no such field'"),
        (leaving, "compute_reward: SystemExit: 3"),
        ("1.0", "compute_reward: TypeError: returned str '1.0', not a dict"),
        (
            None,
            "compute_reward: TypeError: returned None, not a dict of {part: score} or a number: is a `return` missing?",
        ),
        ({"a": "1"}, "compute_reward: TypeError: part 'a' is str '1', not a number"),
        ({"a": 1j}, "compute_reward: TypeError: part 'a' is complex"),
        ({"a": np.array([1.0])}, "compute_reward: TypeError: part 'a' is ndarray"),
        ({1: 1.0}, "compute_reward: TypeError: a part is named 1"),
        ({"a": float("nan")}, "compute_reward: ValueError: part 'a' is nan"),
        ({"a": float("-inf")}, "compute_reward: ValueError: part 'a' is -inf"),
        ({"a": 10**400}, "compute_reward: ValueError: part 'a' is inf"),
        ({"a": None}, "compute_reward: no part with a weight applies"),
        ({}, "compute_reward: no part with a weight applies"),
        ({"a": 1, "b": 10}, "compute_reward: part 'b' is above its maximum: 10 of 1; what to do: return 1 for what is"),
        (1.001, "compute_reward: part 'reward' is above its maximum: 1.001 of 1; what to do: "),
    ],
)
def test_a_score_that_is_none_is_an_error_and_never_zero(result, cause):
    row = only(score(Returns(result)))
    assert row.total is None
    assert row.solved is False
    assert row.error is not None
    assert str(row.error).startswith(cause)


class Points(BaseEnv):
    """Points from 0 to 10, form from 0 to 1."""

    def compute_reward(self, completion, ground_truth):
        points, form = completion.text.split()
        return {"points": float(points), "form": None if form == "-" else float(form), "words": 12.0}

    def reward_weights(self):
        return {"form": 0.5, "words": 0.0}

    def reward_maxima(self):
        return {"points": 10.0}


def test_what_is_full_follows_from_the_declared_maxima():
    # full is 1 * 10 + 0.5 * 1 = 10.5; without the form, 5 points are half of the 10 that apply, so 5.25
    rows = score(Points(), answered(TASK, "10 1", "10 -", "5 1", "5 -", "10 0.9", "10.1 1"))
    assert [row.total for row in rows] == [10.5, 10.5, 5.5, 5.25, 10.45, None]
    assert [row.solved for row in rows] == [True, True, False, False, False, False]
    assert str(rows.rows[-1].error).startswith("compute_reward: part 'points' is above its maximum: 10.1 of 10; ")
    assert rows.rows[-1].parts == {"points": 10.1, "form": 1.0, "words": 12.0}
    # 10.1 points count once nothing is paid for them; what is worth paying for is a matter of the config
    (metric,) = score(Points(), answered(TASK, "10.1 1"), weights={"points": 0.0})
    assert (metric.total, metric.solved) == (0.5, True)


def test_ten_of_one_is_not_solved():
    # 10 + 0.5 of a full 1.5 was solved, and so was a half-right answer with 5 + 0.5
    said = {"gold": {"points": 10, "form": 1}, "half": {"points": 5, "form": 1}, "form": {"points": 0, "form": 1}}
    environment = Returns(lambda completion: said[completion.text])
    rows = score(environment, answered(TASK, *said), weights={"form": 0.5})
    assert [(row.total, row.solved) for row in rows] == [(None, False), (None, False), (0.5, False)]


class Declared(Points):
    """Points from -10 to 10 and words from 0 to 20 have a range, form has none unless it is given one."""

    def reward_maxima(self):
        return {"points": 10.0, "words": 20.0}

    def reward_minima(self):
        return {"points": -10.0, "words": 0.0}


def test_the_ranges_of_scores_travel_with_them():
    rows = score(Declared(), answered(TASK, "-10 1", "-11 1"))
    assert rows.ranges == {"rewards/points": (-10, 10), "rewards/words": (0, 20)}
    assert [row.total for row in rows] == [-9.5, None]
    assert str(rows.rows[-1].error).startswith(
        "compute_reward: part 'points' is below its minimum: -11, not -10 or more"
    )
    # without the form, points alone are the total
    assert score(Declared(), answered(TASK, "5 1"), weights={"form": 0.0}).ranges["reward"] == (-10, 10)


@pytest.mark.parametrize(
    ("minima", "said"),
    [
        ({"points": -float("inf")}, "the minimum of part 'points' is -inf"),
        ({"points": 10.5}, "the minimum of part 'points' is 10.5, above its maximum, 10"),
        (None, "returned NoneType None, not a dict"),
    ],
)
def test_minima_that_are_none_stop_the_scoring(minima, said):
    class Odd(Points):
        def reward_minima(self):
            return minima

    with pytest.raises(EnvironmentSetupError, match=f"reward_minima: {said}"):
        score(Odd())


def test_a_maximum_that_is_none_stops_the_scoring():
    class Endless(Plain):
        def reward_maxima(self):
            return {"exact": float("inf")}

    with pytest.raises(EnvironmentSetupError, match="reward_maxima: the maximum of part 'exact' is inf"):
        score(Endless())


def test_a_part_of_weight_zero_alone_is_no_score():
    # Nothing of 0 would otherwise count as full: 0 >= 0.
    row = only(score(Returns({"format": 1.0}), weights={"format": 0.0}))
    assert (row.total, row.solved) == (None, False)


def test_a_final_answer_that_fails_is_an_error():
    class Votes(Plain):
        def final_answer(self, completion):
            return 4

    assert str(only(score(Votes())).error) == "final_answer: TypeError: returned int 4, not text or None"


def test_an_answer_and_an_error_can_always_be_stored():
    # JSON that a model wrote may spell half a surrogate pair ("\\ud800"), which no table takes.
    class Reads(Returns):
        def final_answer(self, completion):
            return "4\ud800"

    def failing(completion):
        raise ValueError("no \ud800")

    answer, error = only(score(Reads({"a": 1.0}))), only(score(Returns(failing)))
    assert answer.answer == "4?"
    assert str(error.error).startswith("compute_reward: ValueError: no \\ud800, at tests/rlft/rewards/test_scoring.py:")
    assert rewards_to_table(Rewards((answer, error), {})).num_rows == 2


def test_an_endless_loop_is_an_error_and_the_next_rollout_is_scored():
    left_behind = []

    def stuck(completion):
        while completion.text == "4":
            left_behind[:] = [threading.current_thread()]
        return {"a": 1.0}

    started = time.perf_counter()
    rewards = score(Returns(stuck), answered(TASK, "4", "5"), timeout_seconds=0.2)
    assert [row.total for row in rewards] == [None, 1.0]
    assert str(rewards.rows[0].error) == "compute_reward: ScoringTimeout: no score within 0.2 s"
    assert time.perf_counter() - started < 20
    (thread,) = left_behind
    thread.join(30)
    assert not thread.is_alive()


def test_a_reward_that_awaits_too_long_is_cancelled_as_often_as_needed():
    cancelled = []

    async def waits():
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.append(True)

    class Waits(BaseEnv):
        def compute_reward(self, completion, ground_truth):
            return waits()

    rewards = score(Waits(), answered(TASK, *"abcdefg"), timeout_seconds=0.02)
    assert all(row.error and "no score within" in str(row.error) for row in rewards)
    assert len(cancelled) == 7


def hangs_unless(fine):
    """A reward that never returns but for some answers."""

    def stuck(completion):
        while not fine(completion.text):
            pass
        return {"exact": completion.text == "4"}

    return stuck


@pytest.mark.slow
def test_a_reward_that_hangs_from_the_first_on_stops_the_run():
    with pytest.raises(RewardHangs, match="the reward hangs: the first 8 scores have no result"):
        score(Returns(hangs_unless(lambda text: False)), answered(TASK, *"abcdefghij"), timeout_seconds=0.02)


def test_a_judge_that_never_answers_stops_the_run():
    async def waits():
        await asyncio.sleep(60)

    class Judged(BaseEnv):
        def compute_reward(self, completion, ground_truth):
            return waits() if completion.text else {"exact": 0.0}

    with pytest.raises(RewardHangs, match="a judge, a server"):
        score(Judged(), answered(TASK, *"abcdefghij"), timeout_seconds=0.02)


@pytest.mark.slow
def test_answers_that_are_too_hard_to_score_are_lost_and_the_run_goes_on():
    reward = hangs_unless(lambda text: text != "bomb")
    rows = score(Returns(reward), answered(TASK, "4", *["bomb"] * 20, "5"), timeout_seconds=0.05).rows
    assert [row.total for row in rows] == [1.0, *[None] * 20, 0.0]
    assert {str(row.error) for row in rows[1:21]} == {"compute_reward: ScoringTimeout: no score within 0.05 s"}


def test_a_failed_rollout_keeps_its_error():
    row = only(score(Plain(), Rollouts((make_rollout(TASK, *TASK.prompt, error=Failure("engine", "out of memory")),))))
    assert (row.total, str(row.error)) == (None, "rollout: engine: out of memory")


def test_a_failed_rollout_tells_its_reward_the_kind_of_its_error():
    failed = Failure("setup", "KeyError: 1, at x.py:3", "mend it", raised="KeyError", place="x.py:3")
    error = only(score(Plain(), Rollouts((make_rollout(TASK, *TASK.prompt, error=failed),)))).error
    assert str(error) == "rollout: setup: KeyError: 1, at x.py:3; what to do: mend it"
    assert error.kind == ("setup", "KeyError", "x.py:3")


class Prompted(BaseEnv):
    def context(self, task):
        return Context(system_prompt="Be brief.")

    def compute_reward(self, completion, ground_truth):
        return {"messages": len(completion), "last": completion.text == ground_truth}


def test_worked_examples_in_the_prompt_are_not_the_attempt():
    examples = (
        {"role": "user", "content": "1+1="},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": "2+2="},
    )
    task = replace(TASK, prompt=examples)
    silent = make_rollout(task, *prompt_messages(task, Prompted()))
    told = make_rollout(task, *prompt_messages(task, Prompted()), {"role": "assistant", "content": "4"})
    # The "4" of the example earns the silent rollout nothing.
    rows = score(Prompted(), Rollouts((silent, told)), task=task).rows
    assert [row.parts for row in rows] == [{"messages": 0.0, "last": 0.0}, {"messages": 1.0, "last": 1.0}]


def test_a_rollout_with_another_prompt_is_an_error():
    row = only(score(Prompted(), answered(TASK, "4")))
    assert row.error is not None
    assert str(row.error).startswith("prompt: ValueError: the rollout begins with ['user', 'assistant']")


def test_the_trajectory_knows_task_state_and_truncation():
    seen = []

    def look(completion):
        seen.append((completion.task, completion.state, completion.truncated))
        return {"a": 1}

    rollout = replace(answered(TASK, "4").rows[0], state={"calls": 2}, truncated=True)
    score(Returns(look), Rollouts((rollout,)))
    assert seen == [(TASK, {"calls": 2}, True)]


def test_a_weight_without_a_part_names_the_parts():
    with pytest.raises(ConfigError, match=r"no rollout has a part named 'exakt'\n.*did you mean exact"):
        score(Plain(), weights={"exakt": 1.0})


def test_weights_are_not_blamed_when_nothing_could_be_scored():
    assert only(score(Returns(raising), weights={"a": 1.0})).total is None


def test_an_unknown_task_stops():
    other = make_task("other", "?", None)
    with pytest.raises(TaskError, match="'other'"):
        score(Plain(), answered(other, "4"))


def test_a_cheap_score_costs_less_than_a_millisecond():
    def seconds():  # of a processor: wall seconds grow with whatever else the machine does
        started = time.process_time()
        score(Plain(), answered(TASK, *["4"] * 2000))
        return time.process_time() - started

    gc.freeze()  # so that what other tests have left is not searched for garbage meanwhile
    assert min(seconds() for _ in range(3)) < 2  # 0.4 to 0.5 was measured
    gc.unfreeze()


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (None, "reward_weights: returned NoneType None, not a dict"),
        ({"exact": "1"}, "reward_weights: the weight of part 'exact' is '1', not a finite number"),
        ({"exact": math.nan}, "reward_weights: the weight of part 'exact' is nan"),
        ({"exact": True}, "reward_weights: the weight of part 'exact' is True"),
    ],
)
def test_weights_that_are_none(weights, said):
    class Graded(BaseEnv):
        def reward_weights(self):
            return weights

        async def compute_reward(self, completion, ground_truth):
            return {"exact": 1.0}

    task = make_task("w", "?", "x")
    with pytest.raises(EnvironmentSetupError, match=said):
        score_rollouts(answered(task, "x"), {"w": task}, Graded(), RewardConfig(timeout_seconds=5.0))


def test_the_weight_of_parts_that_are_named_nowhere():
    class Graded(BaseEnv):
        def reward_weights(self):
            return {"exact": 2.0, "*": 0.0}

        def reward_maxima(self):
            return {"length": 10.0}

        async def compute_reward(self, completion, ground_truth):
            return {"exact": 1.0, "length": 7.0}

    task = make_task("w", "?", "x")
    for weights, total, shown in (({}, 2.0, 0.0), ({"length": 0.5}, 5.5, 0.5), ({"*": 1.0}, 9.0, 1.0)):
        rewards = score_rollouts(
            answered(task, "x"), {"w": task}, Graded(), RewardConfig(weights=weights, timeout_seconds=5.0)
        )
        assert rewards.rows[0].total == total
        assert rewards.weights == {"exact": 2.0, "length": shown}


def moody(completion, seconds):
    """What a reward does with an answer: it fails, leaves, returns what is no score, or is right."""
    if completion.text == "leave":
        raise SystemExit(3)
    return {"exact": 1 / int(completion.text), "long": {"3": math.nan}.get(completion.text, seconds)}


class Sync(BaseEnv):
    def compute_reward(self, completion, ground_truth):
        time.sleep(0.05)
        return moody(completion, 0.5)


class Awaited(BaseEnv):
    async def compute_reward(self, completion, ground_truth):
        await asyncio.sleep(0.05)
        return moody(completion, 0.5)


class Marked(BaseEnv):
    @rlft.reward(weight=2.0)
    def exact(self, completion):
        time.sleep(0.05)
        return moody(completion, 0.5)["exact"]

    @rlft.reward()
    def long(self, completion):
        return moody(completion, 0.5)["long"]


@pytest.mark.parametrize("environment", [Sync(), Awaited(), Marked()])
def test_concurrency_changes_nothing_but_the_time(environment):
    texts = ["1", "2", "0", "x", "leave", "3", *"456789", "10", "11", "12", "13"]

    def scored(concurrency):
        started = time.perf_counter()
        rewards = score(environment, answered(TASK, *texts), concurrency=concurrency)
        rows = [replace(row, seconds=0.0) for row in rewards.rows]
        places = [row.error and (row.error.raised, row.error.place) for row in rows]
        return rows, places, rewards.weights, time.perf_counter() - started

    *one, alone = scored(1)
    *many, together = scored(16)
    assert many == one
    assert [row.rollout_id for row in many[0]] == [f"t/{sample}" for sample in range(16)]
    assert sum(row.total is not None for row in one[0]) == 12  # all but division by zero, a text, leaving and NaN
    assert alone > 15 * 0.05  # Marked's second part is not reached by a failing first one
    assert together < alone / 2


def test_an_async_reward_runs_side_by_side_and_a_plain_one_only_where_asked():
    def most(environment, concurrency=None):
        environment.running = environment.most = 0
        score(environment, answered(TASK, *"abcdefghij"), concurrency=concurrency)
        return environment.most

    class Plain(BaseEnv):
        def compute_reward(self, completion, ground_truth):
            self.running += 1
            self.most = max(self.most, self.running)
            time.sleep(0.02)
            self.running -= 1
            return 1.0

    class Async(BaseEnv):
        async def compute_reward(self, completion, ground_truth):
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.02)
            self.running -= 1
            return 1.0

    assert (most(Plain()), most(Plain(), 4)) == (1, 4)
    assert (most(Async()), most(Async(), 1), most(Async(), 4)) == (8, 1, 4)


class Steps(BaseEnv):
    """Pays a right answer, and each turn by its calls and its results."""

    @rlft.reward
    def right(self, text, ground_truth):
        return float(text == ground_truth)

    @rlft.reward(weight=0.5, per="turn")
    def read(self, turn, task):
        return None if not turn.results else float(task.answer in turn.results[0]["content"])

    @rlft.reward(weight=-0.1, per="turn")
    async def words(self, turn):
        return len(turn.message["content"].split())


CALLED = (
    {"role": "user", "content": "2+2="},
    {"role": "assistant", "content": "let me see", "tool_calls": []},
    {"role": "tool", "content": "it is 4"},
    {"role": "assistant", "content": "4"},
)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_each_turn_is_scored_by_itself_and_adds_nothing_to_the_total(concurrency):
    rollout = make_rollout(TASK, *CALLED)
    rewards = score(Steps(), Rollouts((rollout,)), concurrency=concurrency, weights={"words": -0.2})
    row = only(rewards)
    assert (row.total, row.parts, row.solved) == (1.0, {"right": 1.0}, True)
    assert row.steps == {"read": (1.0, None), "words": (3.0, 1.0)}
    assert rewards.weights == {"right": 1.0}
    assert rewards.step_weights == {"read": 0.5, "words": -0.2}
    # 0.5 * 1 - 0.2 * 3, and -0.2 * 1 where the other part does not apply
    assert step_scores(rewards, row) == pytest.approx([-0.1, -0.2])


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ({"read": [1.0]}, "part 'read' is [1.0], not a list of 2 scores, one for each turn"),
        ({"read": [1.0, math.nan]}, "part 'read' is nan"),
        ([1.0, 0.0], "returned list [1.0, 0.0], not a dict of {part: a score for each turn}"),
        ({"read": [1.0, "0"]}, "part 'read' is str '0', not a number"),
    ],
)
def test_scores_of_turns_that_are_none_are_an_error_of_the_rollout(steps, why):
    class Odd(Returns):
        def compute_step_rewards(self, completion, ground_truth):
            return steps

    row = only(score(Odd(1.0), Rollouts((make_rollout(TASK, *CALLED),))))
    assert row.total is None
    assert (row.error.where, row.steps) == ("compute_step_rewards", {})
    assert why in row.error.why


def test_a_part_of_the_attempt_and_of_its_turns_is_refused():
    class Both(Returns):
        def compute_step_rewards(self, completion, ground_truth):
            return {"read": [1.0]}

    with pytest.raises(EnvironmentSetupError, match="'read' is scored for the attempt and per turn"):
        score(Both({"read": 1.0}))
