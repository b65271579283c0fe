"""Prompts to tokens and tokens to text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rlft.models.tokens import (
    character_tokenizer,
    check_prompts,
    render_prompt,
    unknown_characters,
)
from tests.factories import user

ALPHABET = "<>padeosunk .,'!?\n\t\r\u2028\u00e9\u0301\U0001f600|"
TOKENIZER = character_tokenizer(ALPHABET)


def completion_text(tokenizer, token_ids):
    return tokenizer.decode(list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)


TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}|{% endif %}"


@given(st.text(alphabet=ALPHABET))
def test_character_round_trip(text):
    ids = render_prompt(TOKENIZER, [user(text)])
    assert len(ids) == len(text)
    assert all(i > 2 for i in ids)
    assert completion_text(TOKENIZER, ids) == text
    assert completion_text(TOKENIZER, [*ids, 1]) == text


@pytest.mark.parametrize("text", ["<eos>", "<pad>", "<unk>", "<pad><eos> a"])
def test_names_of_special_tokens_are_only_text(text, tmp_path):
    TOKENIZER.save_pretrained(tmp_path)
    for tokenizer in (TOKENIZER, AutoTokenizer.from_pretrained(tmp_path)):
        ids = render_prompt(tokenizer, [user(text)])
        assert len(ids) == len(text)
        assert completion_text(tokenizer, ids) == text


def test_ids_of_the_character_tokenizer():
    tokenizer = character_tokenizer("baab")
    assert tokenizer.get_vocab() == {"<pad>": 0, "<eos>": 1, "<unk>": 2, "b": 3, "a": 4}
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id) == (0, 1, 2)
    assert render_prompt(tokenizer, [user("abc")]) == [4, 3, 2]
    assert completion_text(tokenizer, [4, 0, 3, 1]) == "ab"


@given(st.lists(st.text(alphabet=ALPHABET), min_size=1, max_size=4))
def test_without_a_template_contents_are_joined(contents):
    ids = render_prompt(TOKENIZER, [user(content) for content in contents])
    assert completion_text(TOKENIZER, ids) == "\n".join(contents)


def test_with_a_template_the_template_decides():
    tokenizer = character_tokenizer("abcdefghijklmnopqrstuvwxyz<>|")
    tokenizer.chat_template = TEMPLATE
    ids = render_prompt(tokenizer, [{"role": "system", "content": "be"}, user("hi")])
    assert completion_text(tokenizer, ids) == "<system>be<user>hi|"
    assert all(type(i) is int for i in ids)


def word_tokenizer(**special):
    """A tokenizer that opens and closes every text, as some do."""
    vocabulary = {"<s>": 0, "</s>": 1, "<unk>": 2, "one": 3, "two": 4}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"} | special
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def test_a_prompt_is_opened_and_not_closed():
    tokenizer = word_tokenizer()
    assert render_prompt(tokenizer, [user("one two")]) == [0, 3, 4]
    assert completion_text(tokenizer, [3, 4, 1]) == "one two"


def test_an_unknown_token_that_only_opens_texts_is_no_trouble():
    # GPT-2 calls its end, start and unknown token by one name.
    tokenizer = word_tokenizer(unk_token="<s>")
    check_prompts(tokenizer, [("t", [user("one two")])], max_completion_length=4, context_length=16)
    assert unknown_characters(tokenizer, "one") == []
    assert unknown_characters(word_tokenizer(), "one") == []
    assert unknown_characters(word_tokenizer(), "onx") == ["n", "o", "x"]
