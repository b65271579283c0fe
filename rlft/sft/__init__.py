"""Supervised fine-tuning on demonstrations, as a warm start and as the control arm that GRPO is compared with.

- `demonstrations`, `demonstration_file`: the conversations to learn from, played by an environment or read from a file
- `encoding`: their tokens, and which of these are learnt
- `training`, `state`, `checkpoint`: the training, what it has done so far, and files from which it goes on
"""
