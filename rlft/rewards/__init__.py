"""Scores rollouts by an environment's reward, and adds the parts of each score up to a checked total.

- `scoring`: scores stored rollouts by `compute_reward`; a failure is never a 0
- `by_settings`: the same as a config says, each of several environments by its own settings
- `scores`: gets the scores from the environment, several side by side, each within a time limit
- `attempt`: asks the environment for one score, where the environment's code runs
- `remote`: the same where the environment's code runs in worker processes
- `one_rollout`: makes the reward of one rollout from its score
- `harmless`: answers that should be easy to score, to tell a reward that always hangs from one that sometimes does
- `rubric`: what scores, weights, maxima and minima of parts may be, and how parts add up
- `rescored`: what another reward says of the same attempts, group by group
- `same_prompts`: whether stored attempts answer what an environment asks now
- `cases`: the tests that a specification brings with it
- `canaries`: attempts by which a judge that has changed is noticed
- `agreement`: whether a written reward prefers what people prefer, on pairs of attempts
- `ranges`: which scores and totals are possible, for intervals
"""
