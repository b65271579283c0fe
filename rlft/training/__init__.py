"""GRPO: `advantage` and `loss` are pure, `batching` and `logprobs` feed them, and `trainer` does a round's updates."""
