"""Chooses the demonstrations of supervised fine-tuning, and encodes them with a flag for each token to imitate.

They are a file's, or the environment's for some of the train tasks.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rlft.config import HarnessConfig, WarmStartConfig
from rlft.config.environment import Isolation
from rlft.environments.contract.base import BaseEnv, prompt_messages
from rlft.environments.contract.faults import calling
from rlft.environments.contract.several import Several
from rlft.errors import PolicyError, TaskError
from rlft.harness.chat.conversation import Chat, open_chat
from rlft.harness.opening import open_playground
from rlft.harness.scripted import Part, Script, as_script, play_scripts
from rlft.messages import MessageError
from rlft.models import Policy
from rlft.models.tokens import unknown_characters
from rlft.progress import Meter, Progress, silent
from rlft.tasks.curriculum import turns_of
from rlft.tasks.splits import sample_tasks
from rlft.training.demonstration_file import Demonstration, read_demonstrations
from rlft.types import Message, Rollout, Task

logger = logging.getLogger(__name__)


Answers = Literal["gold", "demonstration", "file"]


def choose_demonstrations(
    settings: WarmStartConfig,
    tasks: Sequence[Task],
    environment: BaseEnv,
    *,
    shares: Mapping[str, float] | None = None,
    isolation: Isolation | None = None,
    progress: Progress = silent,
) -> list[Demonstration]:
    """Return at most `settings.demonstrations`, from `settings.path` or else from the environment for train tasks.

    The environment's are for a sample of the tasks, since the first rows of a file may all be of one kind. With
    `shares` each of several environments has its share of them, or all of its tasks if these are fewer. They are played
    through its tools like a policy's answers, which run where `isolation` says. Tasks without one are left out.

    Raises TaskError if there are none at all, or if one cannot be read or played.
    """
    if settings.path is not None:
        return read_demonstrations(Path(settings.path), settings.demonstrations)
    said = [(task, _shown(task, environment)) for task in _sample(tasks, settings.demonstrations, shares)]
    found = _play(said, environment, isolation, progress)
    if not found:
        raise TaskError(
            "no train task has a gold answer to show",
            where="warm_start",
            fix="give warm_start.path with messages, define gold_completion in the environment, or remove warm_start",
        )
    return found


def _sample(tasks: Sequence[Task], limit: int, shares: Mapping[str, float] | None) -> Sequence[Task]:
    if shares is None:
        return sample_tasks(tasks, limit)
    counts, _ = turns_of(shares, limit, 0)
    own = {name: [task for task in tasks if task.environment == name] for name in shares}
    chosen = {task.id for name, count in counts.items() for task in sample_tasks(own[name], count)}
    return [task for task in tasks if task.id in chosen]


def all_demonstrations(
    settings: WarmStartConfig | None,
    tasks: Sequence[Task],
    environment: BaseEnv,
    *,
    most: int | None = None,
    isolation: Isolation | None = None,
    progress: Progress = silent,
) -> dict[Answers, list[Demonstration]]:
    """Return all that can be shown, at most `most`, by whose answers these are.

    `gold` has the rows of the warm start's file, then each task's gold completion, or the environment's demonstration
    where there is none; `demonstration` the reverse, and `file` the rows alone. None is the best to imitate in general:
    a demonstration may be there to show less than what is to be learnt, and a gold completion may be a bare answer.
    What would be the same as another is left out, and so is what is empty. Raises TaskError if one cannot be read or
    played.
    """
    rows: list[Demonstration] = []
    if settings is not None and settings.path is not None:
        rows = read_demonstrations(Path(settings.path), min(settings.demonstrations, most or settings.demonstrations))
    missing = None if most is None else most - len(rows)
    golds = [(task, _first_of(task, environment, _gold, _shown)) for task in tasks] if missing != 0 else []
    chosen = {task.id for task in sample_tasks([task for task, said in golds if said is not None], missing)}
    gold = [(task, said) for task, said in golds if task.id in chosen]
    shown = [(task, _first_of(task, environment, _shown, _gold)) for task, _ in gold]
    found: dict[Answers, list[Demonstration]] = {}
    if gold:
        found["gold"] = rows + _play(gold, environment, isolation, progress)
    if [_script(said, task) for task, said in gold] != [_script(said, task) for task, said in shown]:
        found["demonstration"] = rows + _play(shown, environment, isolation, progress)
    return {**found, "file": rows} if rows else found


def can_demonstrate(settings: WarmStartConfig | None, tasks: Sequence[Task], environment: BaseEnv) -> bool:
    """Return whether there is anything to show: a file of the warm start, or an answer to any of the tasks."""
    has_file = settings is not None and settings.path is not None
    return has_file or any(_first_of(task, environment, _shown, _gold) is not None for task in tasks)


def _first_of(task: Task, environment: BaseEnv, *ask: Callable[[Task, BaseEnv], Any]) -> Any:
    """Return the first answer to a task that there is, in the order in which it is asked for; `None` without any."""
    answers = (each(task, environment) for each in ask)
    return next((said for said in answers if said is not None), None)


def _gold(task: Task, environment: BaseEnv) -> Any:
    with calling("gold_completion", task):
        return environment.gold_completion(task)


def _shown(task: Task, environment: BaseEnv) -> Any:
    with calling("demonstration", task):
        return environment.demonstration(task)


def _play(
    said: Sequence[tuple[Task, Any]], environment: BaseEnv, isolation: Isolation | None, progress: Progress
) -> list[Demonstration]:
    """Return what was said to each task, with what the tools answered; tasks to which nothing was said are left out."""
    parts = [Part(f"shown/{task.id}", task, _script(given, task)) for task, given in said if given is not None]
    played = play_scripts(parts, environment, HarnessConfig(isolation=isolation), progress=progress)
    return [_demonstration(rollout, environment, part.task) for rollout, part in zip(played, parts, strict=True)]


def _script(said: Any, task: Task) -> Script:
    try:
        return as_script(said)
    except MessageError as error:
        raise TaskError(
            f"its demonstration cannot be read: {error}", where=f"task {task.id}", fix="mend it in the environment"
        ) from error


def _demonstration(rollout: Rollout, environment: BaseEnv, task: Task) -> Demonstration:
    if rollout.error is not None:
        raise TaskError(f"its gold answer cannot be shown: {rollout.error}", where=f"task {task.id}")
    prompt = prompt_messages(task, environment)
    own = task.environment if isinstance(environment, Several) else ""
    return Demonstration(prompt, rollout.messages[len(prompt) :], own)


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
