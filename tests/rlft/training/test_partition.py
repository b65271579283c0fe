"""The division of an update's rollouts among workers: nothing is lost, no group is cut, and the loads are even."""

from hypothesis import given
from hypothesis import strategies as st

from rlft.training.batching import packed_tokens
from rlft.training.world import partition
from tests.factories import make_rollout


def make_group(task, prompt, lengths):
    return [
        (make_rollout(f"t{task}", sample, prompt=[4] * prompt, completion=[5] * length), 1.0)
        for sample, length in enumerate(lengths)
    ]


GROUPS = st.lists(st.tuples(st.integers(1, 30), st.lists(st.integers(1, 30), min_size=1, max_size=6)), max_size=12).map(
    lambda sizes: [make_group(task, *size) for task, size in enumerate(sizes)]
)


@given(GROUPS, st.integers(1, 5), st.booleans())
def test_every_group_is_whole_with_one_worker_in_its_order(groups, workers, shares_prompts):
    divided = partition(groups, workers, shares_prompts=shares_prompts)
    assert len(divided) == workers
    ids = [[[rollout.rollout_id for rollout, _ in group] for group in mine] for mine in divided]
    expected = [[rollout.rollout_id for rollout, _ in group] for group in groups]
    assert sorted(group for mine in ids for group in mine) == sorted(expected)
    for mine in ids:
        places = [expected.index(group) for group in mine]
        assert places == sorted(places)


@given(GROUPS, st.integers(1, 5))
def test_no_worker_has_more_than_a_fair_share_and_one_group(groups, workers):
    # The worker with most was, before its last group, one with fewest tokens: at most the mean of what was given away.
    costs = [packed_tokens(group) for group in groups]
    loads = [sum(map(packed_tokens, mine)) for mine in partition(groups, workers, shares_prompts=True)]
    assert max(loads) <= sum(costs) / workers + max(costs, default=0)


def test_a_prompt_counts_once_where_it_is_shared():
    # A completion of 2 has 1 token to encode after the prompt. Shared: 20 + 6, against 12 + 1 and 12 + 1: the two that
    # are smaller go together. A row per completion: 6 * 22 = 132, against 14 and 14, and so the same; with one rollout
    # less on either side of a tie the first worker is taken.
    first, second, third = make_group(0, 20, [2] * 6), make_group(1, 12, [2]), make_group(2, 12, [2])
    assert partition([second, first, third], 2, shares_prompts=True) == [[first], [second, third]]
    # Shared 20 + 3 = 23 is less than 30 + 1 = 31; as rows 3 * 22 = 66 is more than 32: another goes to the third.
    many, one, last = make_group(0, 20, [2] * 3), make_group(1, 30, [2]), make_group(2, 3, [2])
    assert partition([many, one, last], 2, shares_prompts=True) == [[one], [many, last]]
    assert partition([many, one, last], 2, shares_prompts=False) == [[many], [one, last]]


def test_a_worker_may_have_no_rollout():
    group = make_group(0, 3, [2, 2])
    assert partition([group], 3, shares_prompts=True) == [[group], [], []]
    assert partition([], 2, shares_prompts=True) == [[], []]
