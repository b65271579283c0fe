"""Rewards: from the parts that an environment pays to a checked total.

- `scoring`: every stored rollout through `compute_reward`, with a time limit; errors stay errors
- `worker`: the thread that scores, and that can be left behind when a reward hangs
- `harmless`: answers that no policy made up, to tell what hangs on anything from what hangs on some answers
- `rubric`: what a part may be, and how parts add up
"""
