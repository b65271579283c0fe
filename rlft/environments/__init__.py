"""What an environment is (`contract`), and those that rlft ships, each with its rewards.

- `contract`, `workers`, `fingerprints`: what an environment is; where its code runs; hashes of it for cache keys
- `reasoning_gym`, `gsm8k`, `maths`, `stories`, `patterns`: the attempt is one answer without tools
- `press_releases`, `snips_slots`, `search`, `code`, `calculator`: the attempt uses tools, or is a program that is run;
  `press_release_records`, `search_index`, `search_embedding`, `code_running` and `code_inside` belong to them
- `specified`: the reward is a specification, whatever the attempt is
- `trl`, `verl`: the reward is a function written for one of these libraries, used unchanged
"""
