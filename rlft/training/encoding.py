"""Encodes demonstrations as token ids, with a flag for each token that is to be imitated."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence

import numpy as np

from rlft.config import HarnessConfig
from rlft.config.workers import Isolation
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.several import Several
from rlft.errors import PolicyError
from rlft.harness.chat import Chat, open_chat
from rlft.harness.opening import open_playground
from rlft.models import Policy
from rlft.models.tokens import unknown_characters
from rlft.progress import Meter, Progress
from rlft.training.demonstration_file import Demonstration
from rlft.types import Message, Rollout

logger = logging.getLogger(__name__)

Chats = Chat | Mapping[str, Chat]
"""What makes tokens of messages; of several environments the chat of each, by its name."""
Row = tuple[list[int], list[bool]]  # token ids of a whole conversation, and which of them are imitated


def open_chats(policy: Policy, environment: BaseEnv, isolation: Isolation | None) -> Chats:
    """Return the chat of an environment, or of each of several, whose code runs where `isolation` says."""
    if isinstance(environment, Several):
        return {name: _open(policy, member, isolation) for name, member in environment.members.items()}
    return _open(policy, environment, isolation)


def encode_demonstrations(
    policy: Policy, chat: Chats, demonstrations: Sequence[Demonstration], progress: Progress
) -> list[Row]:
    """Return every demonstration as tokens. Raises PolicyError for one that is too long or has unknown characters."""
    meter = Meter(progress, len(demonstrations), "demonstrations")
    rows: list[Row] = []
    for demonstration in demonstrations:
        rows.append(encode(policy, chat, demonstration))
        meter.add(tokens=len(rows[-1][0]))
    return rows


def that_fit(policy: Policy, chat: Chats, demonstrations: Sequence[Demonstration]) -> list[Demonstration]:
    """Return the demonstrations that the policy can be shown; a warning names those that it cannot, and why."""
    fitting, reasons = [], []
    for demonstration in demonstrations:
        try:
            encode(policy, chat, demonstration)
        except PolicyError as cause:
            reasons.append(f"{cause.where}: {cause.what}")
        else:
            fitting.append(demonstration)
    if reasons:
        logger.warning(
            "%d of %d demonstrations are left out, such as %s", len(reasons), len(demonstrations), reasons[0]
        )
    return fitting


def as_rollout(row: Row, number: int) -> Rollout:
    """Return a row as a rollout of this number, whose sampled tokens are those to imitate, at probability 1.

    Rows with the same prompt, what stands before the first imitated token, are of one task. The very first token of a
    row is never imitated, as nothing predicts it.
    """
    ids, imitated = row
    tokens, mask = np.asarray(ids, dtype=np.int32), np.asarray(imitated, dtype=np.bool_)
    mask[0] = False
    start = int(mask.argmax()) if mask.any() else len(ids) - 1
    return Rollout(
        rollout_id=str(number),
        task_id=tokens[:start].tobytes().hex(),
        sample=0,
        round=0,
        messages=(),
        token_ids=tokens,
        loss_mask=mask,
        logprobs=np.zeros(len(ids), dtype=np.float32),
        prompt_length=start,
        turns=1,
        tool_calls=0,
        tool_errors=0,
        state={},
        stop_reason="stop",
        truncated=False,
        error=None,
        seconds=0.0,
        policy="",
        sampling="",
        environment="",
        seed=0,
    )


def _open(policy: Policy, environment: BaseEnv, isolation: Isolation | None) -> Chat:
    playground = open_playground(environment, HarnessConfig(isolation=isolation))
    return open_chat(policy.tokenizer, tuple(playground.tools.values()), multi_turn=playground.max_turns > 1)


def encode(policy: Policy, chat: Chats, demonstration: Demonstration) -> Row:
    """Return the token ids of the whole conversation, and which of them are imitated: those the assistant writes.

    Raises PolicyError if they exceed the model's context, or if the tokenizer does not know a character.
    """
    chat = chat[demonstration.environment] if isinstance(chat, Mapping) else chat
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
    """Return an assistant's message as tokens. Raises PolicyError for characters that the tokenizer does not know."""
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
