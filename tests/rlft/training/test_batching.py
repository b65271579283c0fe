"""Tensors from rollouts, packed and padded, and parts that fit a budget."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlft.training.batching import pack_tree, pad_rows, split_by_tokens, split_tree
from tests.factories import make_rollout

CPU = torch.device("cpu")
WAYS = {"packed": pack_tree, "padded": pad_rows}


def rollout_of(prompt, completion, sampled=None, sample=0, task="t0"):
    """Tokens after the prompt are counted in `logprobs`: the i-th has -i; `sampled` says which the model sampled."""
    sampled = [True] * len(completion) if sampled is None else sampled
    logprobs = [-float(i) if chosen else 0.0 for i, chosen in enumerate(sampled)]
    mask = np.asarray([False] * len(prompt) + list(sampled), dtype=bool)
    return make_rollout(task, sample, prompt=prompt, completion=completion, logprobs=logprobs, loss_mask=mask)


@st.composite
def groups_of_rollouts(draw):
    """Groups with prompts of their own (some the same), ragged completions, and holes where a tool wrote."""
    groups = []
    for task in range(draw(st.integers(1, 4))):
        prompt = draw(st.lists(st.integers(3, 4), min_size=1, max_size=5))
        group = []
        for sample in range(draw(st.integers(1, 5))):
            completion = draw(st.lists(st.integers(3, 9), min_size=1, max_size=9))
            sampled = draw(st.lists(st.booleans(), min_size=len(completion), max_size=len(completion)))
            group.append((rollout_of(prompt, completion, sampled, sample, f"t{task}"), float(sample)))
        groups.append(group)
    return groups


def test_packed_by_value():
    # The row: the prompt [7, 8], then the longer completion [5, 6] without its last token 1, then [4] without its last;
    # then the prompt [3] and nothing of [9], whose only token is predicted by the prompt.
    short = rollout_of([7, 8], [4, 1])
    long = rollout_of([7, 8], [5, 6, 1])
    other = rollout_of([3], [9])
    batch = pack_tree([(short, 1.5), (long, -0.5), (other, 0.25)], CPU)
    assert batch.token_ids.tolist() == [[7, 8, 5, 6, 4, 3]]
    assert batch.positions.tolist() == [[0, 1, 2, 3, 2, 0]]
    assert batch.attention_mask is None
    # short: 4 is predicted at the prompt's end (1), 1 at the 4 (4); long: 5, 6, 1 at 1, 2, 3; other: 9 at 5
    assert batch.sources.tolist() == [1, 4, 1, 2, 3, 5]
    assert batch.targets.tolist() == [4, 1, 5, 6, 1, 9]
    assert batch.rollouts.tolist() == [0, 0, 1, 1, 1, 2]
    assert batch.columns.tolist() == [0, 1, 0, 1, 2, 0]
    assert batch.mask.tolist() == [[True, True, False], [True, True, True], [True, False, False]]
    assert batch.logprobs.tolist() == [[0, -1, 0], [0, -1, -2], [0, 0, 0]]
    assert batch.advantages.tolist() == [1.5, -0.5, 0.25]


def test_padded_by_value():
    batch = pad_rows([(rollout_of([7, 8], [4, 1]), 1.5), (rollout_of([3], [9, 5, 6]), -0.5)], CPU)
    assert batch.token_ids.tolist() == [[7, 8, 4], [3, 9, 5]]
    assert batch.positions.tolist() == [[0, 1, 2]] * 2
    assert batch.attention_mask.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert batch.attention is None
    assert batch.sources.tolist() == [1, 2, 3, 4, 5]  # of the rows one after the other, 3 wide
    assert batch.targets.tolist() == [4, 1, 9, 5, 6]
    assert batch.columns.tolist() == [0, 1, 0, 1, 2]


def test_padding_is_on_the_right():
    batch = pad_rows([(rollout_of([7], [4, 1]), 0.0), (rollout_of([3, 4, 5], [9, 5, 6]), 0.0)], CPU)
    assert batch.token_ids.tolist() == [[7, 4, 0, 0, 0], [3, 4, 5, 9, 5]]
    assert batch.attention_mask.tolist() == [[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]


@pytest.mark.parametrize("way", WAYS)
def test_an_end_that_was_sampled_trains_and_one_that_was_forced_does_not(way):
    sampled, forced = rollout_of([7], [4, 1]), rollout_of([7], [4, 1], [True, False])
    batch = WAYS[way]([(sampled, 0.0), (forced, 0.0)], CPU)
    assert batch.targets.tolist() == [4, 1, 4]
    assert batch.mask.tolist() == [[True, True], [True, False]]
    # nothing is encoded to predict what does not train: of the completions only the first one's 4, which predicts 1
    assert int((batch.token_ids == 4).sum()) == 1
    assert int((batch.token_ids == 1).sum()) == 0


@pytest.mark.parametrize("way", WAYS)
def test_what_a_tool_wrote_is_read_and_does_not_train(way):
    # 5 and 6 are a tool's: they are encoded, as 8 was sampled after them; 9 after it is not
    batch = WAYS[way]([(rollout_of([7], [4, 5, 6, 8, 9], [True, False, False, True, False]), 0.0)], CPU)
    assert batch.token_ids.tolist() == [[7, 4, 5, 6]]
    assert batch.sources.tolist() == [0, 3]
    assert batch.targets.tolist() == [4, 8]
    assert batch.columns.tolist() == [0, 3]
    assert batch.logprobs.tolist() == [[0, 0, 0, -3, 0]]


@pytest.mark.parametrize("way", WAYS)
def test_a_rollout_in_which_nothing_was_sampled(way):
    batch = WAYS[way]([(rollout_of([7, 8], [4, 5], [False, False]), 1.0), (rollout_of([7, 8], [6]), 1.0)], CPU)
    assert batch.mask.tolist() == [[False, False], [True, False]]
    assert batch.targets.tolist() == [6]
    assert (batch.token_ids == 4).sum() == 0


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@given(groups=groups_of_rollouts())
def test_every_sampled_token_is_predicted_where_the_token_before_it_stands(way, groups):
    pairs = [pair for group in groups for pair in group]
    batch = WAYS[way](pairs, CPU)
    ids, positions = batch.token_ids.flatten(), batch.positions.flatten()
    found = [[] for _ in pairs]
    for source, target, number, column in zip(
        *(part.tolist() for part in (batch.sources, batch.targets, batch.rollouts, batch.columns)), strict=True
    ):
        rollout = pairs[number][0]
        place = rollout.prompt_length + column
        assert rollout.loss_mask[place]
        assert rollout.token_ids[place] == target
        assert rollout.token_ids[place - 1] == ids[source]
        assert positions[source] == place - 1
        assert batch.logprobs[number, column] == rollout.logprobs[place]
        found[number].append(place)
    for (rollout, advantage), places, row, known in zip(pairs, found, batch.mask, batch.advantages, strict=True):
        assert places == np.flatnonzero(rollout.loss_mask).tolist()
        assert row.nonzero().squeeze(-1).tolist() == [place - rollout.prompt_length for place in places]
        assert known == advantage


@pytest.mark.parametrize("way", WAYS)
def test_a_rollout_without_a_prompt(way):
    with pytest.raises(ValueError, match="train-0-t0-0 has no prompt"):
        WAYS[way]([(rollout_of([], [4, 5]), 0.0)], CPU)


def test_values_go_back_to_their_places():
    batch = pack_tree([(rollout_of([7], [4, 5, 6], [True, False, True]), 0.0), (rollout_of([7], [8]), 0.0)], CPU)
    values = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    spread = batch.spread(values)
    assert spread.tolist() == [[1, 0, 2], [3, 0, 0]]
    (spread * torch.tensor([[1.0, 10, 100], [1000, 0, 0]])).sum().backward()
    assert values.grad.tolist() == [1, 100, 1000]


def flat(groups):
    return [pair for group in groups for pair in group]


def packed_size(part):
    return pack_tree(part, CPU).token_ids.numel()


@given(groups=groups_of_rollouts(), budget=st.integers(1, 60))
def test_parts_hold_every_rollout_once_within_the_budget(groups, budget):
    parts = split_tree(flat(groups), budget)
    assert sorted(id(rollout) for rollout, _ in flat(parts)) == sorted(id(rollout) for rollout, _ in flat(groups))
    for part in parts:
        assert len(part) == 1 or packed_size(part) <= budget


def test_a_group_that_is_cut_encodes_its_prompt_once_in_every_part():
    # 6 completions with 3 encoded tokens each, all different, and a prompt of 4: 4 + 2 * 3 = 10 holds two of them
    group = [(rollout_of([7, 8, 9, 3], [10 + i, 5, 6, 1], sample=i), 0.0) for i in range(6)]
    assert [len(part) for part in split_tree(group, 10)] == [2, 2, 2]
    assert [packed_size(part) for part in split_tree(group, 10)] == [10] * 3
    assert [len(part) for part in split_tree(group, 22)] == [6]
    assert [len(part) for part in split_tree(group, 21)] == [5, 1]
    assert [len(part) for part in split_tree(group, 1)] == [1] * 6


def test_what_begins_alike_stays_together():
    # Two groups, each a prompt of 20 and two completions of 3: 26. A part of 34 has room for one rollout of the second
    # group beside the first, and ends between the groups, though both begin with the same 16 tokens.
    groups = [[(rollout_of([7] * 16 + [t] * 4, [8 + i, 5, 6, 1], sample=i), 0.0) for i in (0, 1)] for t in (3, 4)]
    parts = split_tree([groups[1][0], groups[0][0], groups[1][1], groups[0][1]], 34)
    assert [[rollout.token_ids[16] for rollout, _ in part] for part in parts] == [[3, 3], [4, 4]]
    assert [packed_size(part) for part in parts] == [26, 26]
    assert packed_size(flat(groups)) == 36  # 16 + 2 * (4 + 2 * 3)


def test_turns_that_continue_each_other_stay_together():
    # prompts of 16, 32, 48 and 64 tokens that begin alike, each with 3 encoded tokens of its own: three of them are a
    # row of 48 + 3 * 3 = 57, and the last is one of 67 by itself
    pairs = [(rollout_of([7] * 16 * turn, [8 + turn, 5, 6, 1], sample=turn), 0.0) for turn in (4, 2, 1, 3)]
    parts = split_tree(pairs, 60)
    assert sorted(packed_size(part) for part in parts) == [57, 67]


def test_small_groups_share_a_part():
    # each group: a prompt of 2 and one encoded token = 3; 3 groups in 9
    pairs = [(rollout_of([task, task], [4, 1], task=f"t{task}"), 0.0) for task in (3, 4, 5, 6)]
    assert [len(part) for part in split_tree(pairs, 9)] == [3, 1]


def test_no_rollouts_no_parts():
    assert split_tree([], 5) == list(split_by_tokens([], 5)) == []


LENGTHS = st.lists(st.integers(1, 40), max_size=40)


def pairs_of(lengths):
    return [(rollout_of([4], [5] * length, sample=number), 0.0) for number, length in enumerate(lengths)]


@given(LENGTHS, st.integers(1, 200))
def test_padded_parts_hold_every_row_once_within_the_budget(lengths, budget):
    pairs = pairs_of(lengths)
    parts = list(split_by_tokens(pairs, budget))
    assert sorted(r.sample for part in parts for r, _ in part) == list(range(len(lengths)))
    for part in parts:
        assert len(part) == 1 or pad_rows(part, CPU).token_ids.numel() <= budget


def test_padded_parts_by_value():
    # 2, 3, 4 and 10 tokens with the prompt: 3 rows of 4 fill 12, the row of 10 is alone, in any budget
    def found(budget):
        return [[r.sample for r, _ in part] for part in split_by_tokens(pairs_of([9, 2, 1, 3]), budget)]

    assert found(12) == [[2, 1, 3], [0]]
    assert found(1) == [[2], [1], [3], [0]]
