"""Scores rollouts by an environment's reward, and adds the parts of each score up to a checked total.

- `scoring`, `one_rollout`: scores stored rollouts by `compute_reward`, with a time limit; a failure is never a 0
- `worker`: the thread that scoring runs in, which can be left behind when a reward hangs
- `harmless`: answers that should be easy to score, to tell a reward that always hangs from one that sometimes does
- `rubric`: what scores, weights and maxima of parts may be, and how parts add up
"""
