"""Judges: models behind an address that answer questions about attempts, where nothing that computes can decide.

- `answers`: what was answered, kept by its content in memory and on disk
- `chat_judge`: a judge behind an OpenAI-compatible address
- `servers`: the vLLM servers that this process has started for judges
- `weights`: which weights such a judge has
- `asking`: what it is sent; what the attempt says is data there
- `pairs`: pairs of attempts of which people said which is better, shown in either order
- `reading`: its answer read strictly, as a number or a label
"""
