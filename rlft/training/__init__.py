"""GRPO: from a round's rollouts and rewards to a changed policy.

`trainer` is the entry; `job` calls it for a round from folder to folder. `ledger` decides which rollouts are trained
on, `advantage` and `turns` with which advantages, `batching` makes tensors of them, `logprobs` runs the model, `loss`
with `importance`, `kl` and `chosen_loss` computes the loss, `update` takes the steps of the `optimizer`, `reading` says
which `parts` of an update a trainer encodes, `old_logprobs` what the ratios are taken to, `limits` when a round is
given up, and `tally` collects the metrics. `world` is the trainers that train together, and `partition`
divides an update's rollouts among them. `off_policy` is about rollouts that another policy sampled. `imitation` is
supervised training on such batches, `unused` reports a round that nobody trains on, `checkpointing` saves memory for
time, and `loss_trial` tries a loss of the user's own on a few tokens.
"""
