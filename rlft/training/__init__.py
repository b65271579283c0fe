"""Training: `advantage` and `loss` are pure, `batching` and `logprobs` feed them; `trainer`, `warm_start` use them."""
