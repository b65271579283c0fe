"""Judges: models behind an address that answer questions about attempts, where nothing that computes can decide.

- `answers`: what was answered, kept by its content in memory and on disk
- `chat_judge`: a judge behind an OpenAI-compatible address: what it is sent, and its answer read strictly
- `servers`: the vLLM servers that this process has started for judges
- `pairs`: pairs of attempts of which people said which was better, shown in either order
"""
