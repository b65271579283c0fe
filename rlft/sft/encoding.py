"""Demonstrations as tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from rlft.chat import Chat
from rlft.errors import PolicyError
from rlft.policy.folder import Policy
from rlft.policy.tokens import unknown_characters
from rlft.progress import Meter, Progress
from rlft.sft.demonstration_file import Demonstration
from rlft.types import Message

Row = tuple[list[int], list[bool]]  # token ids of a whole conversation, and which of them are imitated


def encode_demonstrations(
    policy: Policy, chat: Chat, demonstrations: Sequence[Demonstration], progress: Progress
) -> list[Row]:
    """All of them as tokens. Raises PolicyError for one that the model cannot read whole."""
    meter = Meter(progress, len(demonstrations), "demonstrations")
    rows: list[Row] = []
    for demonstration in demonstrations:
        rows.append(encode(policy, chat, demonstration))
        meter.add(tokens=len(rows[-1][0]))
    return rows


def identity_of(rows: Sequence[Row]) -> str:
    """Identity of what is trained on, in its order."""
    digest = hashlib.sha256()
    for ids, imitated in rows:
        digest.update(json.dumps([ids, imitated]).encode())
    return digest.hexdigest()


def encode(policy: Policy, chat: Chat, demonstration: Demonstration) -> Row:
    """Token ids of the whole conversation, and which of them are imitated."""
    asked = demonstration.prompt[-1]["content"] if demonstration.prompt else ""
    where = f"warm_start, demonstration for {asked!r:.80}"
    ids = chat.prompt(demonstration.prompt)
    imitated = [False] * len(ids)
    told: list[Message] = []
    for message in demonstration.turns:
        if message["role"] != "assistant":
            told.append(message)
            continue
        if told:
            ids += chat.continuation(told, ids[-1])
            imitated += [False] * (len(ids) - len(imitated))
            told = []
        ids += _written(policy, chat, message, where)
        imitated += [True] * (len(ids) - len(imitated))
    longest = getattr(policy.model.config, "max_position_embeddings", None)
    if longest is not None and len(ids) > longest:
        raise PolicyError(
            f"its {len(ids)} tokens exceed the model's {longest}",
            where=where,
            fix="shorten the demonstrations, or use a model with a longer context",
        )
    return ids, imitated


def _written(policy: Policy, chat: Chat, message: Message, where: str) -> list[int]:
    """An assistant's message as tokens, all of which the tokenizer knows."""
    ids = chat.write(message)
    calls = message.get("tool_calls")
    text = message["content"] + (json.dumps(calls, ensure_ascii=False) if calls else "")
    if policy.tokenizer.unk_token_id in ids and (unknown := unknown_characters(policy.tokenizer, text)):
        raise PolicyError(
            f"the tokenizer has no token for {unknown}",
            where=where,
            fix="add the characters to policy.from_scratch.characters, or take demonstrations without them",
        )
    return ids
