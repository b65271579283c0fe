"""Turns messages into prompt tokens, and makes a tokenizer of characters.

Sampled tokens are never encoded again from their text, which might give other tokens. `check_prompts` looks whether a
model can read the prompts of all tasks, before anything is sampled.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from rlft.errors import PolicyError
from rlft.messages import as_read
from rlft.progress import Meter, Progress, silent
from rlft.types import Message, Report


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


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PromptCheck(Report):
    """Names, by their ids, the tasks that the model cannot read.

    The prompts of `too_long` leave no token of the model's context (in tokens; `context_length` is `None` for a model
    without a limit) for an answer, and `unreadable` ones, tasks from use alone, have a character without a token.
    """

    context_length: int | None
    too_long: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.too_long, *(id for id in self.unreadable if id not in self.too_long))


def check_prompts(
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[tuple[str, Sequence[Message]]],
    *,
    max_completion_length: int,
    context_length: int | None,
    encoded: Iterable[Sequence[int]] | None = None,
    from_use: Mapping[str, str] = MappingProxyType({}),
    progress: Progress = silent,
) -> PromptCheck:
    """Check every prompt, and return which are too long for the model's `context_length` (tokens).

    `prompts` are (task id, messages), and `encoded` the tokens of each (by default those of `render_prompt`).
    `from_use` are the ids of tasks that anybody may have asked, with the texts of their answers. Raises PolicyError
    that names the task for a prompt without tokens or with a character that has none, if it is not one of these, and
    when no prompt at all fits.
    Prompts that leave less than `max_completion_length` tokens are warned of, as their answers are cut short.
    """
    meter = Meter(progress, len(prompts), "prompts")
    lengths: dict[str, int] = {}
    rendered = (render_prompt(tokenizer, messages) for _, messages in prompts) if encoded is None else encoded
    unreadable = list[str]()
    for (task_id, messages), ids in zip(prompts, rendered, strict=True):
        if why := _unreadable(tokenizer, messages, ids, from_use.get(task_id, "")):
            if task_id not in from_use:
                fix = "give the task another prompt, or add the characters to policy.from_scratch.characters"
                raise PolicyError(why, where=f"task {task_id}", fix=fix)
            unreadable.append(task_id)
        else:
            lengths[task_id] = len(ids)
        meter.add()
    if context_length is None:
        return PromptCheck(None, unreadable=tuple(unreadable))
    too_long = tuple(task_id for task_id, length in lengths.items() if length >= context_length)
    if lengths and len(too_long) == len(lengths):
        raise PolicyError(
            f"every prompt is longer than the model's context of {context_length} tokens",
            where="tasks.prompt",
            fix="shorten the prompts, or use a model with a longer context",
        )
    cut = sum(length + max_completion_length > context_length for length in lengths.values()) - len(too_long)
    if cut:
        logger.warning(
            "%d of %d prompts leave less than the %d tokens of rollout.max_completion_length in the model's context of "
            "%d tokens: answers to them are cut short",
            cut,
            len(lengths),
            max_completion_length,
            context_length,
        )
    return PromptCheck(context_length, too_long, tuple(unreadable))


def _unreadable(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], ids: Sequence[int], answer: str
) -> str:
    """Return what keeps a prompt, which has these tokens, or its answer from being read; empty if nothing does."""
    if not ids:
        return "its prompt has no tokens"
    text = "\n".join(message["content"] for message in messages)
    unknown = tokenizer.unk_token_id in ids and unknown_characters(tokenizer, text)
    unknown = unknown or unknown_characters(tokenizer, answer)
    return f"the tokenizer has no token for {unknown}" if unknown else ""
