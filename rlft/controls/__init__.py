"""Controls: what something simpler than GRPO reaches with at most the FLOPs that training took, search included.

- `best`: what all share: sampling and validation as GRPO's, learning rates, the best checkpoint and its report
- `constant`: the same answer to every task
- `few_shot`: the prompted controls, of whose prompts the best validated one is kept
- `rejection`: the control that imitates the best of its own attempts, sampled anew in each round
- `sft`: the control that imitates the answers of all train tasks, and its search of how to
"""
