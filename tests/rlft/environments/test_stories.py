import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rlft.environments.stories import Stories, has_repeats, split_sentences
from rlft.types import Trajectory
from tests.rlft.attempts import make_task

NOTHING = {"ends": 0.0, "no_repeats": 0.0, "word": 0.0}
FULL = {"ends": 1.0, "no_repeats": 1.0, "word": 1.0}
PROMPT = "Once upon a time there was a boy. He liked his dog. They lived in a house. One day"


def parts(text, word: str | None = "dog", *, truncated=False, min_sentences=3):
    task = make_task("s", PROMPT, word)
    completion = Trajectory([{"role": "assistant", "content": text}], task=task, truncated=truncated)
    return asyncio.run(Stories(min_sentences).compute_reward(completion, word))


STORY = "The dog ran home. A cat sat down. They were happy."


@pytest.mark.slow
def test_a_short_story_with_the_word_is_full():
    assert parts(STORY) == FULL
    assert parts(STORY.replace("dog", "DOG,")) == FULL
    assert parts(' a dog came. "Hello, boy!" it said. The boy was glad. They played ball.') == FULL


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dog",
        "dog. dog. dog. dog.",
        "dog dog dog. dog dog dog! dog dog dog?",
        "The dog ran home. A cat sat down.",
        "The dog ran home. A cat sat down. They were happy",  # the third sentence never ends
        "The dog ran. A cat. They sat.",
        "dog 1 2. cat 3 4. boy 5 6.",
        PROMPT,
        "He liked his dog. They lived in a house. Once upon a time there was a boy.",
    ],
)
def test_what_is_no_story_earns_nothing(text):
    assert parts(text) == NOTHING


def test_each_part_is_earned_by_itself():
    assert parts(STORY, truncated=True) == {**FULL, "ends": 0.0}
    assert parts(STORY, "boat") == {**FULL, "word": 0.0}
    assert parts(STORY + " The dog ran home!") == {**FULL, "no_repeats": 0.0}
    assert parts(STORY, None) == {**FULL, "word": None}


def test_the_word_must_be_whole_and_in_the_completion():
    assert parts(STORY.replace("dog", "doghouse"))["word"] == 0.0
    assert parts("A cat sat down. They were happy. The end was near.")["word"] == 0.0  # the prompt has a dog


def test_a_copy_with_one_word_changed_is_a_repeat():
    assert parts("The dog ran home. The cat ran home. They were happy.")["no_repeats"] == 0.0
    # Two of four words differ; and sentences of three words are too short to tell.
    assert parts("The dog ran home. The cat sat home. They were happy. Tom was happy.")["no_repeats"] == 1.0


def test_more_sentences_can_be_asked_for():
    assert parts(STORY, min_sentences=4) == NOTHING
    with pytest.raises(ValidationError, match="greater than or equal to 3"):
        Stories(min_sentences=2)


def test_info_names_the_word_where_there_is_no_answer():
    task = make_task("s", PROMPT, None, word="dog")
    completion = Trajectory([{"role": "assistant", "content": STORY}], task=task)
    assert asyncio.run(Stories().compute_reward(completion, None)) == FULL
    assert Stories().final_answer(completion) == "dog"


def test_a_long_text_without_a_full_stop_is_read_at_once():
    # Read anew from every character, these took 14 s.
    started = time.perf_counter()
    assert split_sentences("a b " * 10_000 + "\nIt ends.") == [("it", "ends")]
    assert time.perf_counter() - started < 2


def naive_copy(one, other):
    """Equal, or of the same length from four words on and different in one."""
    wrong = sum(a != b for a, b in zip(one, other, strict=False))
    return len(one) == len(other) and wrong <= (1 if len(one) >= 4 else 0)


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=6).map(tuple), max_size=8))
def test_repeats_are_those_that_comparing_all_pairs_finds(sentences):
    pairs = [(one, other) for index, one in enumerate(sentences) for other in sentences[:index]]
    assert has_repeats(sentences) == any(naive_copy(*pair) for pair in pairs)


def test_a_sentence_that_goes_on_is_no_repeat():
    # The first three words of the second one are the whole of the first.
    assert not has_repeats([("the", "dog", "ran"), ("the", "dog", "ran", "home")])
