"""Judges: models behind an address that answer questions about attempts, where nothing that computes can decide.

- `answers`: what was answered, kept by its content
- `chat_judge`: a judge behind an OpenAI-compatible address: what it is sent, and its answer read strictly
"""
