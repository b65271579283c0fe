"""Which tasks a round takes, and the identity and seed of each attempt."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.engines.transformers_engine import TransformersEngine
from rlft.harness.rollout import PolicyPlayer, SamplingSettings, collect_rollouts
from rlft.tasks.curriculum import tasks_of_round, tasks_of_splits
from tests.factories import FirstCharacter, make_policy, make_task, make_task_set


def train_set(count):
    others = [make_task("v0", split="validation"), make_task("g0", split="gate")]
    return make_task_set(*(make_task(f"t{i}") for i in range(count)), *others)


def ids(task_set, round, count, seed=0):
    return [task.id for task in tasks_of_round(task_set, round=round, count=count, seed=seed)]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.integers(1, 30), st.integers(0, 1000))
def test_an_epoch_takes_no_task_twice_and_leaves_out_less_than_a_round(size, count, seed):
    task_set = train_set(size)
    rounds = max(size // count, 1)
    for epoch in range(3):
        taken = [ids(task_set, epoch * rounds + place, count, seed) for place in range(rounds)]
        assert all(len(tasks) == count for tasks in taken)
        if count <= size:
            flat = [task for tasks in taken for task in tasks]
            assert len(set(flat)) == len(flat) > size - count


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 20), st.integers(0, 50), st.integers(0, 1000))
def test_a_round_follows_from_seed_and_number(size, round, seed):
    assert ids(train_set(size), round, 5, seed) == ids(train_set(size), round, 5, seed)


def test_epochs_and_seeds_have_orders_of_their_own():
    task_set = train_set(30)
    orders = [ids(task_set, 0, 30), ids(task_set, 1, 30), ids(task_set, 0, 30, seed=1)]
    assert len({tuple(order) for order in orders}) == 3
    assert orders[0] != [f"t{i}" for i in range(30)]


def test_what_is_left_of_an_epoch_is_passed_over():
    task_set = train_set(5)
    epochs = [ids(task_set, 0, 5), ids(task_set, 1, 5)]
    assert ids(task_set, 0, 3) == epochs[0][:3]
    assert ids(task_set, 1, 3) == epochs[1][:3]  # two tasks of the first epoch are too few for a round
    assert sorted(ids(task_set, 0, 10)) == sorted(epochs[0] * 2)


def test_tasks_of_splits_keep_their_order():
    task_set = train_set(3)
    assert [t.id for t in tasks_of_splits(task_set, ["gate", "train"])] == ["g0", "t0", "t1", "t2"]
    assert [t.id for t in tasks_of_splits(task_set, ["train"], limit=3)] == ["t0", "t1", "t2"]


def test_a_limit_takes_a_sample_of_each_split_and_not_its_first_rows():
    task_set = train_set(200)
    some = [int(t.id[1:]) for t in tasks_of_splits(task_set, ["train"], limit=50)]
    assert some == sorted(some)
    assert len(set(some)) == 50
    # of a file that is sorted by kind, half of the sample is of the second half: 25, with a standard deviation of 3.1
    assert 15 <= sum(number >= 100 for number in some) <= 35
    assert [t.id for t in tasks_of_splits(task_set, ["gate", "train"], limit=50)] == ["g0", *(f"t{n}" for n in some)]


def collect(policy, tasks, *, round=0, label="train", count=3, seed=0):
    engine = TransformersEngine()
    engine.load_policy(policy)
    return collect_rollouts(
        tasks,
        FirstCharacter(),
        PolicyPlayer(policy, engine),
        SamplingSettings(temperature=1.0, max_completion_length=3, seed=seed),
        num_generations=count,
        round=round,
        label=label,
        environment_fingerprint="env",
    )


def test_ids_and_seeds_are_unique_and_in_order():
    tasks = [make_task("a"), make_task("b"), make_task("a")]  # a round longer than an epoch takes a task twice
    policy = make_policy()
    runs = [collect(policy, tasks), collect(policy, tasks, round=1), collect(policy, tasks, label="evaluation")]
    runs.append(collect(policy, tasks, seed=1))
    rows = [rollout for run in runs for rollout in run]
    assert max(Counter(r.seed for r in rows).values()) == 1
    assert max(Counter(r.rollout_id for r in rows[:27]).values()) == 1
    assert [(r.task_id, r.sample) for r in runs[0]] == [(t, s) for t in "aba" for s in range(3)]
    assert {r.round for r in runs[1]} == {1}
    assert {r.environment for r in rows} == {"env"}
    assert all(type(r.seed) is int for r in rows)


def test_evaluations_of_two_policies_draw_the_same_numbers():
    tasks = [make_task(f"t{i}") for i in range(4)]
    first, second = (collect(make_policy(seed=s, sharpness=3.0), tasks, label="evaluation") for s in (0, 1))
    assert [r.seed for r in first] == [r.seed for r in second]
    assert [r.rollout_id for r in first] == [r.rollout_id for r in second]
    assert [r.token_ids.tolist() for r in first] != [r.token_ids.tolist() for r in second]


def test_the_same_call_gives_the_same_rollouts():
    tasks = [make_task(f"t{i}") for i in range(4)]
    first, second = (collect(make_policy(), tasks) for _ in range(2))
    assert [r.token_ids.tolist() for r in first] == [r.token_ids.tolist() for r in second]
    assert [r.logprobs.tobytes() for r in first] == [r.logprobs.tobytes() for r in second]
    assert first.seconds > 0
