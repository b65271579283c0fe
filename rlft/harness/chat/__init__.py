"""Turns messages into token ids and sampled tokens into messages with tool calls, over several turns.

- `conversation`: chats with and without a chat template, reading a sampled turn, and `open_chat`, which chooses
- `marks`: special tokens, which no text must forge
- `templates`: which template keeps earlier turns as they were, and rendering with it
- `formats`: the formats in which models write tool calls
"""
