"""Supervised fine-tuning on demonstrations, as a warm start and as the control that GRPO is compared with.

- `demonstrations`, `demonstration_file`: conversations to learn from, played by an environment or read from a file
- `encoding`: their tokens, and which of them are learnt
- `training`, `state`, `checkpoint`: the training, all it needs to go on, and that as files
"""
