"""Turns messages into token ids and sampled tokens into messages with tool calls, over several turns.

- `conversation`: chats with and without a chat template, and `open_chat`, which chooses for a tokenizer
- `base`: the interface of a chat, and reading a sampled turn
- `marks`: special tokens, which no text must forge
- `templates`: which template keeps earlier turns as they were, and rendering with it
- `formats`: the formats in which models write tool calls
- `served`: what is sent to an OpenAI-compatible endpoint, and reading its answers
"""

from rlft.harness.chat.conversation import AssistantTurn, Chat, open_chat
from rlft.harness.chat.templates import (
    apply_chat_template_setting,
    check_prefix,
    training_template,
    use_training_template,
)

__all__ = [
    "AssistantTurn",
    "Chat",
    "apply_chat_template_setting",
    "check_prefix",
    "open_chat",
    "training_template",
    "use_training_template",
]
