"""Shipped environments, each with its rewards beside it; what an environment is stands in `rlft.contract`.

- `reasoning_gym`, `gsm8k`, `maths`, `stories`: one answer without tools
- `press_releases`, `snips_slots`, `search`, `code`, `calculator`: with tools or programs
- `trl`, `verl`: reward functions of these libraries, as they are
- `generator_checks`: what stands between an answer and the function of reasoning-gym that scores it
"""
