"""Keys and values while sampling: each row sees its prompt and what it has drawn, whoever else has left."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.models.attention.cache import TreeCache
from rlft.models.attention.packed import Tree

SCALE, WIDTH, LAYERS = 0.5, 8, 2


def draw(generator, *shape, dtype=torch.float64):
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def softmax_attention(query, key, value):
    """One query [heads, 1, width] over keys [key heads, keys, width]."""
    repeat = query.shape[0] // key.shape[0]
    key, value = key.repeat_interleave(repeat, 0), value.repeat_interleave(repeat, 0)
    return (query @ key.transpose(-1, -2) * SCALE).softmax(-1) @ value


class Conversation:
    """A cache under random queries, keys and values, and all keys and values of each row written down beside it."""

    def __init__(self, prompts, prompt_of_row, capacity, *, heads=(4, 2), dtype=torch.float64, seed=0, fixed=False):
        """`prompts` are token ids, or lengths of prompts that have nothing in common."""
        prompts = [[number] * prompt if isinstance(prompt, int) else prompt for number, prompt in enumerate(prompts)]
        self.generator = torch.Generator().manual_seed(seed)
        self.heads, self.dtype = heads, dtype
        tree = Tree.of(prompts, stride=1)
        self.cache = TreeCache(tree, prompt_of_row, capacity, fixed=fixed)
        self.seen = []  # by layer, by row: keys and values
        for layer in range(LAYERS):
            query, key, value = self.draw(1, tree.size)
            output = self.cache.attend(layer, query, key, value, SCALE)
            for places in tree.places:  # what others have in the row changes nothing
                for length in range(1, len(places) + 1):
                    seen, at = places[:length], places[length - 1]
                    expected = softmax_attention(query[0, :, [at]], key[0, :, seen], value[0, :, seen])
                    torch.testing.assert_close(output[0, :, [at]], expected, rtol=0, atol=1e-10)
            self.seen.append([(key[0, :, tree.places[p]], value[0, :, tree.places[p]]) for p in prompt_of_row])
        self.cache.begin_rows()

    def draw(self, batch, tokens):
        shapes = [(batch, heads, tokens, WIDTH) for heads in (self.heads[0], self.heads[1], self.heads[1])]
        return [draw(self.generator, *shape, dtype=self.dtype) for shape in shapes]

    def say(self, tolerance=1e-10):
        """One more token for every row, compared with attention over all that the row has seen."""
        for layer in range(LAYERS):
            rows = self.seen[layer]
            query, key, value = self.draw(len(rows), 1)
            output = self.cache.attend(layer, query, key, value, SCALE)
            assert output.shape == query.shape
            for row, (keys, values) in enumerate(rows):
                rows[row] = (torch.cat([keys, key[row]], 1), torch.cat([values, value[row]], 1))
                expected = softmax_attention(query[row], *rows[row])
                torch.testing.assert_close(output[row], expected, rtol=0, atol=tolerance)
        self.cache.advance()

    def keep(self, rows):
        kept = self.cache.keep(torch.tensor(rows))
        if kept:
            self.seen = [[layer[row] for row in rows] for layer in self.seen]
        return kept


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (6, 1)])
def test_rows_see_their_prompt_and_themselves(heads, fixed):
    talk = Conversation([3, 5, 1], [0, 1, 1, 2, 0, 1, 1], 4, heads=heads, fixed=fixed)
    for _ in range(4):
        talk.say()


def test_what_is_replayed_stays_in_its_place():
    talk = Conversation([3, 5], [0, 1, 1, 0], 4, fixed=True)
    talk.say()
    places = [tensor.data_ptr() for pair in talk.cache.row_keys.values() for tensor in pair]
    assert not talk.keep([0, 1, 2])  # three of four are not worth a new recording
    talk.say()
    assert places == [tensor.data_ptr() for pair in talk.cache.row_keys.values() for tensor in pair]
    assert talk.keep([0, 2])
    talk.say()


def test_one_prompt_for_all():
    talk = Conversation([4], [0] * 5, 3)
    for _ in range(3):
        talk.say()


def test_as_many_prompts_as_rows():
    talk = Conversation([2, 6, 3], [2, 0, 1], 3)
    for _ in range(3):
        talk.say()


def test_prompts_that_lose_all_their_rows():
    talk = Conversation([3, 5, 2], [0, 0, 1, 1, 2, 2], 6)
    talk.say()
    assert talk.keep([2, 3, 5])  # none of the first prompt's
    talk.say()
    assert talk.keep([2])  # and none of the second's
    talk.say()
    talk.say()


@pytest.mark.parametrize("fixed", [False, True])
def test_prompts_that_begin_alike(fixed):
    # three levels: [1 2] of four prompts, [3] of three of them, and what is their own; the last has nothing in common
    prompts = [[1, 2, 3, 4, 5], [1, 2, 3, 6], [1, 2, 3], [1, 2, 7], [8, 9]]
    talk = Conversation(prompts, [0, 1, 1, 2, 3, 4, 4, 0], 6, fixed=fixed)
    talk.say()
    assert talk.keep([1, 3, 5])
    talk.say()
    assert talk.keep([2])  # which has one level alone
    talk.say()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_whoever_leaves_and_whenever(data):
    prompt = st.lists(st.integers(0, 2), min_size=1, max_size=6)
    lengths = data.draw(st.lists(prompt, min_size=1, max_size=5))
    rows = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=8))
    talk = Conversation(lengths, rows, 5, seed=len(rows))
    for _ in range(5):
        talk.say()
        count = len(talk.seen[0])
        staying = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1)))
        assert talk.keep(staying) == (len(staying) <= 7 / 8 * count)


def test_a_row_that_leaves_alone_stays_to_be_fed():
    # 15 of 16 rows: copying their keys would cost more than feeding one in vain. 14 of 16 are 7/8.
    talk = Conversation([2], [0] * 16, 4)
    talk.say()
    assert not talk.keep(list(range(15)))
    talk.say()
    assert talk.keep(list(range(14)))
    talk.say()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_shorter_types(dtype, tolerance):
    generator = torch.Generator().manual_seed(0)
    tree = Tree.of([[1, 2], [3, 4, 5, 6]])
    cache = TreeCache(tree, [1, 0, 1], 2)
    key, value = (draw(generator, 1, 2, 6, WIDTH, dtype=dtype) for _ in range(2))
    cache.attend(0, draw(generator, 1, 4, 6, WIDTH, dtype=dtype), key, value, SCALE)
    cache.begin_rows()
    query = draw(generator, 3, 4, 1, WIDTH, dtype=dtype)
    own_key, own_value = (draw(generator, 3, 2, 1, WIDTH, dtype=dtype) for _ in range(2))
    output = cache.attend(0, query, own_key, own_value, SCALE)
    assert output.dtype == dtype
    for row, prompt in enumerate([1, 0, 1]):
        keys = torch.cat([key[0, :, tree.places[prompt]], own_key[row]], 1).double()
        values = torch.cat([value[0, :, tree.places[prompt]], own_value[row]], 1).double()
        expected = softmax_attention(query[row].double(), keys, values)
        torch.testing.assert_close(output[row].double(), expected, rtol=tolerance, atol=tolerance)


def test_what_others_say_is_not_heard():
    def outputs(word):
        generator = torch.Generator().manual_seed(0)
        cache = TreeCache(Tree.of([[1, 2, 3]]), [0, 0], 2)
        cache.attend(0, *(draw(generator, 1, 2, 3, WIDTH) for _ in range(3)), SCALE)
        cache.begin_rows()
        query, key, value = (draw(generator, 2, 2, 1, WIDTH) for _ in range(3))
        for tensor in (query, key, value):
            tensor[1] = word
        return cache.attend(0, query, key, value, SCALE)

    one, other = outputs(1.0), outputs(-2.0)
    assert torch.equal(one[0], other[0])
    assert not torch.equal(one[1], other[1])


def test_a_beginning_is_kept_once_however_many_rows_it_has():
    talk = Conversation([[1, 2, 3], [1, 2, 4, 5]], [0] * 6 + [1] * 2, 4)
    talk.say()
    # by layer: one edge of [1 2]; two edges below it, padded to the longer one
    assert [[tuple(key.shape) for key, _ in levels] for levels in talk.cache.edge_keys.values()] == [
        [(1, 2, 2, WIDTH), (2, 2, 2, WIDTH)]
    ] * LAYERS
