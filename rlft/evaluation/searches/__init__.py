"""How arms are made: searches, by validation, within the FLOPs that training took.

- `validator`: what all share: sampling and validation as GRPO's, learning rates, the best checkpoint and its report
- `sft`: imitates the answers of all train tasks, and searches whose, how fast and how long
- `rejection`: imitates the best of its own attempts, sampled anew in each round
- `prompts`: texts before the prompts of a model that is not trained, of which the best validated one is kept
- `constant`: the same answer to every task
"""
