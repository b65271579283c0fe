"""Makes a policy ready for an environment's conversations, before anything is sampled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlft.config import HarnessConfig, PolicyConfig
from rlft.environments.contract.base import BaseEnv, prompt_messages
from rlft.environments.contract.several import Several
from rlft.harness.chat import Chat, apply_chat_template_setting, open_chat, use_training_template
from rlft.harness.dialogue import Playground
from rlft.harness.opening import open_playground
from rlft.models import Policy
from rlft.models.origin import create_policy
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
