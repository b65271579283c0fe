"""Training: from a round's rollouts and rewards, or from demonstrations, to a changed policy.

`trainer` is the entry, and takes the steps of the optimizer; `job` calls it for a round from folder to folder.
`groups` samples the groups of a round again that have no variance.
`algorithms` say which rollouts are trained on, and by which loss: `ledger` sorts them and says what becomes of each,
`advantage` makes GRPO's advantages, `loss` computes the loss that `chosen_loss` finds, one of `losses`. `batching`
makes tensors of rollouts and divides them among trainers, who are `distributed` by Ray, `logprobs` runs the model, and
`tally` collects the metrics and says when a round is given up.

`imitation` is supervised fine-tuning, as a warm start and in controls: `demonstrations` and `demonstration_file` are
the conversations to learn from, played by an environment or read from a file.
"""
