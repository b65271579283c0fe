"""Turns messages into prompt tokens and sampled tokens into text, and makes a tokenizer of characters.

Sampled tokens are never encoded again from their text, which might give other tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from rlft.messages import as_read
from rlft.types import Message


def character_tokenizer(characters: str, pieces: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """Return a tokenizer with a token for each character and each piece, and `<pad>`, `<eos>`, `<unk>` as ids 0, 1, 2.

    These three names in a text are read as the characters they are made of. A piece in a text is one token; where
    several fit, the longest is taken.
    """
    vocabulary = {"<pad>": 0, "<eos>": 1, "<unk>": 2}
    for part in dict.fromkeys([*characters, *pieces]):
        vocabulary[part] = len(vocabulary)
    longest_first = sorted(pieces, key=len, reverse=True)
    split = Regex("|".join([*(_escaped(piece) for piece in longest_first), r"[\s\S]"]))
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))  # type: ignore[reportCallIssue]
    tokenizer.pre_tokenizer = pre_tokenizers.Split(split, "isolated")  # type: ignore[reportAttributeAccessIssue]
    tokenizer.decoder = decoders.Fuse()  # type: ignore[reportAttributeAccessIssue]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        split_special_tokens=True,
    )


def _escaped(text: str) -> str:
    """Return the text as a pattern of the Oniguruma library, which `tokenizers` uses for regular expressions."""
    return "".join(f"\\x{{{ord(character):x}}}" for character in text)


def render_prompt(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> list[int]:
    """Return the token ids of a prompt, which the model's completion follows.

    With a chat template the messages are rendered by it. A tokenizer without one belongs to a model that continues
    text: then the contents are joined with newlines.
    """
    if tokenizer.chat_template:
        conversation: Any = [as_read(message) for message in messages]
        ids = tokenizer.apply_chat_template(conversation, add_generation_prompt=True, tokenize=True, return_dict=False)
        return [int(i) for i in ids]  # type: ignore[reportGeneralTypeIssues]
    text = "\n".join(message["content"] for message in messages)
    ids = list(tokenizer(text).input_ids)
    if len(ids) > 1 and ids[-1] == tokenizer.eos_token_id:
        ids.pop()  # some tokenizers add an end token to every text, but here the completion follows
    return ids


def completion_text(tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int]) -> str:
    """Return the text of sampled tokens without special tokens; unlike the tokenizer's default it changes no spaces."""
    return str(tokenizer.decode(list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))


def unknown_characters(tokenizer: PreTrainedTokenizerBase, text: str) -> list[str]:
    """Return the characters of a text that the tokenizer reads as its unknown token.

    There are none for a tokenizer whose unknown token is its end or start token as well (GPT-2's): it knows all.
    """
    unknown = tokenizer.unk_token_id
    if unknown is None or unknown in (tokenizer.eos_token_id, tokenizer.bos_token_id):
        return []
    if unknown not in tokenizer(text, add_special_tokens=False).input_ids:
        return []
    return sorted({c for c in text if unknown in tokenizer(c, add_special_tokens=False).input_ids})
