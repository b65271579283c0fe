"""GRPO: from a round's rollouts and rewards to a changed policy.

`trainer` is the entry, and takes the steps of the optimizer; `job` calls it for a round from folder to folder.
`ledger` decides which rollouts are trained on, `advantage` with which advantages, `batching` makes tensors of them,
`logprobs` runs the model, `loss` computes the loss that `chosen_loss` finds, `limits` says when a round is given up,
and `tally` collects the metrics. `world` is the trainers that train together. `off_policy` is about rollouts that
another policy sampled, and `imitation` is supervised training on such batches.
"""
