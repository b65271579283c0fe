"""Controls: what something simpler than GRPO reaches with at most the FLOPs that training took, search included.

- `constant`: the same answer to every task
- `judging`: the validation by which checkpoints are chosen, the same as GRPO's
- `search`: supervised fine-tuning at several learning rates within a budget, of which the best checkpoint is kept
- `few_shot`, `prompts`: the prompted controls, of whose prompts the best validated one is kept
- `sft`: the control that imitates the gold answers of all train tasks
"""
