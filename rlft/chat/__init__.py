"""Turns messages into token ids and sampled tokens into messages with tool calls, over several turns.

- `conversation`: `open_chat`, which chooses template and format of tool calls for a tokenizer
- `base`: the interface of a chat, and reading a sampled turn
- `template_chat`, `plain_chat`: chats with a chat template and without one
- `templates`, `history`, `rendering`: which template keeps earlier turns as they were, and rendering with it
- `formats`, `declared`: the formats in which models write tool calls
- `parsed`: what is found in the text of a turn
- `served`: what is sent to an OpenAI-compatible endpoint, and reading its answers
- `marks`: special tokens, which the text of a user or a tool must not forge
"""

from rlft.chat.conversation import AssistantTurn, Chat, open_chat
from rlft.chat.history import check_prefix
from rlft.chat.templates import apply_chat_template_setting, training_template, use_training_template

__all__ = [
    "AssistantTurn",
    "Chat",
    "apply_chat_template_setting",
    "check_prefix",
    "open_chat",
    "training_template",
    "use_training_template",
]
