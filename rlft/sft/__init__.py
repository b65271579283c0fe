"""Supervised fine-tuning on demonstrations, as a warm start and in controls that GRPO is compared with.

- `demonstrations`, `demonstration_file`: the conversations to learn from, played by an environment or read from a file
- `overlap`: demonstrations of tasks that a policy is evaluated on
- `encoding`: their tokens, and which of these are learnt
- `training`, `checkpoint`: the training, what it has done so far, and files from which it goes on
"""
