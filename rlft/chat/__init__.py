"""From messages to tokens and from sampled tokens to tool calls, for conversations of many turns."""

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
