"""Makes a policy ready for an environment's conversations, and says what these show it before a task.

The latter is kept in a version of a policy (`context.json`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import Field
from transformers import PreTrainedTokenizerBase

from rlft.config import HarnessConfig, PolicyConfig
from rlft.config.section import Section
from rlft.environments.contract.base import BaseEnv, context_of, prompt_messages
from rlft.environments.contract.several import Several, places_of
from rlft.harness.chat.conversation import Chat, open_chat
from rlft.harness.chat.templates import apply_chat_template_setting, use_training_template
from rlft.harness.dialogue import Playground
from rlft.harness.opening import open_playground
from rlft.models import Policy
from rlft.models.origin import create_policy
from rlft.texts.secrets import hide
from rlft.types import Task


def prepare_policy(
    policy: Policy, environment: BaseEnv, harness: HarnessConfig, settings: PolicyConfig
) -> Callable[[Task], list[int]]:
    """Give the policy the chat template that it is trained with, and every token that ends a turn.

    Both are saved with the policy. Unless `settings` name a template, it is the model's own if that keeps earlier
    turns as they were, else the one that is shipped for its family. Several environments share one. Returns what
    makes the tokens of a task's prompt. Raises PolicyError if neither does, EnvironmentSetupError for tools that cannot
    be described.
    """
    members = environment.members if isinstance(environment, Several) else {"": environment}
    grounds = {name: open_playground(member, harness) for name, member in members.items()}
    apply_chat_template_setting(policy.tokenizer, settings.chat_template, settings.chat_template_kwargs)
    for ground in grounds.values():
        use_training_template(policy.tokenizer, tools=bool(ground.tools), multi_turn=ground.max_turns > 1)
    chats = {name: _open(policy, ground) for name, ground in grounds.items()}
    known = policy.stop_token_ids()
    ending = dict.fromkeys(token for chat in chats.values() for token in chat.stop_token_ids)
    if new := [token for token in ending if token not in known]:
        policy.model.generation_config.eos_token_id = [*known, *new]

    def prompt(task: Task) -> list[int]:
        chat = chats[task.environment] if isinstance(environment, Several) else chats[""]
        return chat.prompt(prompt_messages(task, environment))

    return prompt


def _open(policy: Policy, ground: Playground) -> Chat:
    tools, multi_turn = tuple(ground.tools.values()), ground.max_turns > 1
    return open_chat(policy.tokenizer, tools, tool_format=ground.harness.tool_format, multi_turn=multi_turn)


def open_prepared(
    settings: PolicyConfig, conversations: Sequence[tuple[BaseEnv, HarnessConfig]], *, seed: int
) -> Policy:
    """Return a model that is ready for the conversations of each environment. Raises as `prepare_policy` does."""
    policy = create_policy(settings, seed=seed)
    for environment, harness in conversations:
        prepare_policy(policy, environment, harness, settings)
    return policy


class ShownContext(Section):
    """Holds what stands before a task's own prompt, so that a model is asked as it was in training.

    `system_prompt` is empty without one, and where it depends on the task (`depends_on_task`). `tools` are in OpenAI's
    form, `{"type": "function", "function": {name, description, parameters}}`. `tools_in` says where the model reads of
    them: in the text of the `chat_template`, or `nowhere` if the tokenizer has none. `tool_format` is the form in which
    it writes calls, and `tool_marks` the marks of that form, which may be special tokens. `examples` is how many solved
    tasks are shown: none, as only controls that are not trained read examples. `note` says in a sentence what is not
    kept; it is empty if all is.
    """

    system_prompt: str
    depends_on_task: bool
    tools: tuple[dict[str, Any], ...]
    tools_in: str
    tool_format: str
    tool_marks: tuple[str, ...]
    max_turns: int
    examples: int = 0
    note: str = ""
    members: dict[str, ShownContext] = Field(default={}, exclude_if=lambda members: not members)


def shown_context(
    environment: BaseEnv, harness: HarnessConfig, tasks: Sequence[Task], tokenizer: PreTrainedTokenizerBase
) -> ShownContext:
    """Return what the environment shows before these tasks to the policy of this tokenizer.

    The values of secret variables are hidden. Raises EnvironmentSetupError and PolicyError as a rollout would.
    """
    if isinstance(environment, Several):
        return _of_several(environment, harness, tasks, tokenizer)
    playground = open_playground(environment, harness)
    tools = tuple(playground.tools.values())
    chat = open_chat(tokenizer, tools, tool_format=harness.tool_format, multi_turn=playground.max_turns > 1)
    said = list(dict.fromkeys(context_of(task, environment).system_prompt for task in tasks))
    prompt, note = (said or [""])[0], ""
    if len(said) > 1:
        prompt = ""
        note = (
            f"The system prompt depends on the task ({len(said)} different ones for {len(tasks)} tasks), so that none "
            "is kept; send the right one as a message of role system."
        )
    elif hide(prompt) != prompt:
        prompt = hide(prompt)
        note = "A secret in the system prompt is hidden here; send the whole prompt as a message of role system."
    return ShownContext(
        system_prompt=prompt,
        depends_on_task=len(said) > 1,
        tools=tuple(tool.to_json() for tool in tools),
        tools_in="chat_template" if tokenizer.chat_template else "nowhere",
        tool_format=chat.format.name,
        tool_marks=chat.format.marks,
        max_turns=playground.max_turns,
        note=note,
    )


def _of_several(
    environment: Several, harness: HarnessConfig, tasks: Sequence[Task], tokenizer: PreTrainedTokenizerBase
) -> ShownContext:
    places = places_of(environment, tasks)
    found = {
        name: shown_context(member, harness, [tasks[place] for place in places.get(name, ())], tokenizer)
        for name, member in environment.members.items()
    }
    first, *others = found.values()
    if all(other == first for other in others):
        return first
    return ShownContext(
        system_prompt="",
        depends_on_task=True,
        tools=(),
        tools_in=first.tools_in,
        tool_format=first.tool_format,
        tool_marks=tuple(dict.fromkeys(mark for each in found.values() for mark in each.tool_marks)),
        max_turns=max(each.max_turns for each in found.values()),
        note=f"It was trained in several environments ({', '.join(found)}), which show it different system prompts or "
        "tools, so that none stands before a prompt; send those of the environment that a question is of, or its name "
        "to `rlft serve` (the header rlft-environment).",
        members=found,
    )
