"""Controls: what something simpler than GRPO reaches with at most the FLOPs that training took, search included.

- `best`: the best validated checkpoint of a control, and its report
- `constant`: the same answer to every task
- `judging`: the sampling of rounds and validations, the same as GRPO's
- `own_attempts`, `rejection`: the control that imitates the best of its own attempts, sampled anew in each round
- `search`: supervised fine-tuning at several learning rates within a budget, of which the best checkpoint is kept
- `few_shot`, `prompts`: the prompted controls, of whose prompts the best validated one is kept
- `sft`: the control that imitates the gold answers of all train tasks
"""
