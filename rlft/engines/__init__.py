"""Engines, which sample completions from a policy; `base` is their contract, and `kinds` says what each can do.

- `transformers_engine` samples with the trainer's own model.
- `vllm_engine` runs vLLM in this process.
- `vllm_server`, with `server_clients` and `server_requests`, asks running `vllm serve` processes.
- `serving` makes the commands that start one: to sample from a policy, to answer people or to judge attempts.
  `server_process` is such a program: it is watched, and ended with all it started.
- `chat_endpoint` is no engine: it asks an OpenAI-compatible endpoint for answers, whose tokens are not known.
- `proof` makes sure that vLLM samples with the policy's weights.
"""
