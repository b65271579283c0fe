"""Supervised fine-tuning on demonstrations: before reinforcement learning, and as the control arm beside it."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rlft.chat import Chat, open_chat
from rlft.errors import PolicyError, TaskError
from rlft.messages import MessageError, as_messages
from rlft.policy.folder import Policy
from rlft.policy.optimizer import Optimizer
from rlft.policy.tokens import unknown_characters
from rlft.types import Message


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Prompt messages, and the conversation after it: the assistant's messages are imitated, the others are read."""

    prompt: tuple[Message, ...]
    turns: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class SftReport:
    """Steps done, wall seconds, and the mean loss per token of the last tenth of the steps."""

    steps: int
    seconds: float
    loss: float
    demonstrations: int


def read_demonstrations(path: Path) -> list[Demonstration]:
    """Demonstrations from JSONL rows with `messages`, the last one the assistant's; blank lines are passed over.

    Messages are in any form that `rlft.messages.as_messages` takes.

    The assistant's messages after the last one of the user are imitated, with their `tool_calls` if there are any.

    Raises TaskError with the line, and when there are none.
    """
    if not path.is_file():
        raise TaskError("no such file", where=str(path), fix="check warm_start.path")
    found: list[Demonstration] = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                found.append(_demonstration(as_messages(json.loads(line.decode("utf-8"))["messages"])))
            except (ValueError, KeyError, TypeError) as cause:
                raise TaskError(
                    f"not a demonstration: {cause if isinstance(cause, MessageError) else repr(cause)}",
                    where=f"{path}:{number}",
                    fix='write rows such as {"messages": [{"role": "user", ...}, {"role": "assistant", ...}]}',
                ) from cause
    if not found:
        raise TaskError("no demonstrations in it", where=str(path), fix="write some, or remove warm_start.path")
    return found


def _demonstration(messages: tuple[Message, ...]) -> Demonstration:
    if len(messages) < 2 or messages[-1]["role"] != "assistant":
        raise MessageError("the last of at least two messages must be the assistant's")
    asked = [place for place, message in enumerate(messages) if message["role"] == "user"]
    start = asked[-1] + 1 if asked else len(messages) - 1
    return Demonstration(tuple(messages[:start]), tuple(messages[start:]))


def train_sft(
    policy: Policy,
    demonstrations: Sequence[Demonstration],
    *,
    batch_size: int,
    learning_rate: float,
    warmup_steps: int,
    seed: int,
    steps: int | None = None,
    seconds: float | None = None,
    chat: Chat | None = None,
) -> SftReport:
    """Change `policy` in place by cross-entropy on the assistant's tokens, for so many `steps` or `seconds`.

    `chat` writes the messages; by default that of the policy's tokenizer, without tools.

    Batches are drawn without replacement, epoch after epoch, in an order that follows from `seed`. The optimizer is
    AdamW over float32 masters with a linear warm-up and is not kept: reinforcement learning starts with its own, and
    one that the policy had from earlier is dropped. Raises PolicyError before a loss that is no number reaches the
    weights, and for a demonstration that the model cannot read whole.
    """
    if (steps is None) == (seconds is None):
        raise ValueError("give steps or seconds")
    chat = chat or open_chat(policy.tokenizer, multi_turn=any(len(shown.turns) > 1 for shown in demonstrations))
    rows = [_encode(policy, chat, demonstration) for demonstration in demonstrations]
    policy.optimizer, policy.metadata = None, dataclasses.replace(policy.metadata, update=0)
    optimizer = Optimizer(policy.trainable(), betas=(0.9, 0.98), weight_decay=0.01)
    optimizer.zero_grad()
    policy.model.eval()
    started = time.perf_counter()
    losses: list[float] = []
    for number, batch in enumerate(_batches(len(rows), batch_size, seed)):
        elapsed = time.perf_counter() - started
        if number == steps or (seconds is not None and elapsed >= seconds):
            break
        loss = _loss(policy, [rows[i] for i in batch])
        with optimizer.accumulating():
            loss.backward()
        norm = optimizer.clip(1.0)
        losses.append(loss.item())
        if not (math.isfinite(losses[-1]) and math.isfinite(norm)):
            raise PolicyError(
                f"the loss of step {number + 1} is {losses[-1]:g}, the norm of its gradient {norm:g}",
                where="warm_start",
                fix="lower warm_start.learning_rate",
            )
        optimizer.step(learning_rate * min(1.0, (number + 1) / max(warmup_steps, 1)))
        policy.note_change(update=0)
    tail = losses[-max(1, math.ceil(len(losses) / 10)) :]
    return SftReport(
        steps=len(losses),
        seconds=time.perf_counter() - started,
        loss=sum(tail) / len(tail) if tail else math.nan,
        demonstrations=len(rows),
    )


def _encode(policy: Policy, chat: Chat, demonstration: Demonstration) -> tuple[list[int], list[bool]]:
    """Token ids of the whole conversation, and which of them are imitated."""
    said = next((message["content"] for message in demonstration.turns if message["role"] == "assistant"), "")
    where = f"warm_start, demonstration {said!r:.80}"
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


def _batches(count: int, batch_size: int, seed: int) -> Iterator[list[int]]:
    """Endless batches of indices, each epoch in an order of its own."""
    generator = torch.Generator().manual_seed(seed)
    size = min(batch_size, count)
    while True:
        order = torch.randperm(count, generator=generator).tolist()
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]


def _loss(policy: Policy, rows: Sequence[tuple[list[int], list[bool]]]) -> Tensor:
    """Mean cross-entropy over the imitated tokens."""
    width = max(len(ids) for ids, _ in rows)
    token_ids = torch.zeros(len(rows), width, dtype=torch.int64)
    labels = torch.full((len(rows), width), -100)
    attention = torch.zeros(len(rows), width, dtype=torch.int64)
    for row, (ids, imitated) in enumerate(rows):
        token_ids[row, : len(ids)] = torch.tensor(ids)
        labels[row, : len(ids)] = torch.tensor(ids).where(torch.tensor(imitated), torch.tensor(-100))
        attention[row, : len(ids)] = 1
    token_ids, labels, attention = (t.to(policy.device) for t in (token_ids, labels, attention))
    logits = policy.model(input_ids=token_ids, attention_mask=attention, use_cache=False).logits[:, :-1]
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
