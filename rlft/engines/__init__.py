"""Engines, which sample completions from a policy; `base` is their contract and `create` chooses one.

- `transformers_engine`, with `decoding` and `sampling`, samples with the trainer's own model.
- `vllm_engine`, with `vllm_process`, `vllm_adapter` and `vllm_bar`, runs vLLM in this process.
- `vllm_server`, with `server_set`, `server_client`, `server_requests`, `server_weights` and `weight_transfer`, asks
  running `vllm serve` processes, among which `load_balancing` divides the rollouts; `serving` makes the command that
  starts one, `serving_exports` that for answering people, `serving_judges` that for judging attempts. `child` is such a
  program: it is watched, and ended with all it started.
- `ordering` says what a server is started with that samples from a policy, `ordered` is one that was started so, and
  `guard` runs in it and asks for its key.
- `chat_endpoint` is no engine: it asks an OpenAI-compatible endpoint for answers, whose tokens are not known.
- `installed` says whether vLLM is there.
- `proof` with `trainer_scores`, `readback` and `checksums` make sure that vLLM samples with the policy's weights.
"""
