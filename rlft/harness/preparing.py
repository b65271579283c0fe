"""Makes a policy ready for an environment's conversations, before anything is sampled."""

from __future__ import annotations

from collections.abc import Sequence

from rlft.chat import Chat, apply_chat_template_setting, open_chat, use_training_template
from rlft.config import HarnessConfig, PolicyConfig
from rlft.contract.base import BaseEnv
from rlft.harness.opening import open_playground
from rlft.policy import Policy
from rlft.policy.create import create_policy


def prepare_policy(policy: Policy, environment: BaseEnv, harness: HarnessConfig, *, chat_template: str | None) -> Chat:
    """Give the policy the chat template that it is trained with, and every token that ends a turn; return the chat.

    Both are saved with the policy. `chat_template` is a shipped name or a file; `None` takes the model's own template
    if it keeps earlier turns as they were, else the one that is shipped for its family. Raises PolicyError if neither
    does, EnvironmentSetupError for tools that cannot be described.
    """
    playground = open_playground(environment, harness)
    tools, multi_turn = tuple(playground.tools.values()), playground.max_turns > 1
    apply_chat_template_setting(policy.tokenizer, chat_template)
    use_training_template(policy.tokenizer, tools=bool(tools), multi_turn=multi_turn)
    chat = open_chat(policy.tokenizer, tools, tool_format=harness.tool_format, multi_turn=multi_turn)
    known = policy.stop_token_ids()
    if new := [token for token in chat.stop_token_ids if token not in known]:
        policy.model.generation_config.eos_token_id = [*known, *new]
    return chat


def open_prepared(
    settings: PolicyConfig, conversations: Sequence[tuple[BaseEnv, HarnessConfig]], *, seed: int
) -> Policy:
    """Return a model that is ready for the conversations of each environment. Raises as `prepare_policy` does."""
    policy = create_policy(settings, seed=seed)
    for environment, harness in conversations:
        prepare_policy(policy, environment, harness, chat_template=settings.chat_template)
    return policy
