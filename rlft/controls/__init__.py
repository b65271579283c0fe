"""Controls: what something simpler than GRPO reaches with at most the FLOPs that training took, search included.

- `best`: the best validated checkpoint of a control, and its report
- `constant`: the same answer to every task
- `judging`: the sampling of rounds and validations, the same as GRPO's
- `few_shot`, `prompts`: the prompted controls, of whose prompts the best validated one is kept
- `own_attempts`, `rejection`: the control that imitates the best of its own attempts, sampled anew in each round
- `rates`: the learning rates that trained controls try
- `sft`, `sft_search`: the control that imitates the answers of all train tasks, and its search of how to
"""
