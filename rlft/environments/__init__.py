"""The environments that rlft ships, each with its rewards; what an environment is stands in `rlft.contract`.

- `reasoning_gym`, `gsm8k`, `maths`, `stories`, `patterns`: the attempt is one answer without tools
- `press_releases`, `snips_slots`, `search`, `code`, `calculator`: the attempt uses tools, or is a program that is run
- `specified`: the reward is a specification, whatever the attempt is
- `trl`, `verl`: the reward is a function written for one of these libraries, used unchanged
- `generator_checks`: keeps unsafe answers from the scoring functions of reasoning-gym, and mends those that are too lax
"""
