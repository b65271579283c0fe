"""Environments: what a task may be attempted with, and what an attempt is worth.

- `base`: the contract (`BaseEnv`, `Context`) and `prompt_messages`
- `tools`, `marks`: tools as a model sees them; `@tool`, `@reward`, `@metric`
- `importing`, `loading`: the module that a config names, and an environment or function of it
- `reasoning_gym`, `gsm8k`, `maths`, `stories`: shipped environments, each with its rewards beside it
- `press_releases`, `snips_slots`, `search`, `code`, `calculator`: the same, with tools
- `trl`, `verl`: reward functions of these libraries, as they are
- `verifiers`: what stands between an answer and a verifier of reasoning-gym
- `sources`, `reachable`: which code an environment consists of, for `rlft.fingerprint`
"""
