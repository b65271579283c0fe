"""The environments of the cases and their tasks, one family a file.

- `matching`: how text is compared with the gold
- `form`: rewards of form and length
- `parsing`: how an answer is read out of the text
- `tools`: conversations with tools
- `judging`: stand-ins for judge models, which are fooled as those are
- `code`: answers that are programs
- `attacked`: what an attacker of the audit found, which was mended afterwards
- `honest`, `checked`: rewards that have no loophole known to us
"""
