"""Training: `advantage` and `loss` are pure, `batching` and `logprobs` feed them, `trainer` and `warm_start` use them."""
