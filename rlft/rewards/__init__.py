"""Scores rollouts by an environment's reward, and adds the parts of each score up to a checked total.

- `scoring`: scores stored rollouts by `compute_reward`, also as a config says; a failure is never a 0
- `scores`: gets the scores from the environment, several side by side, each within a time limit
- `attempt`: asks the environment for one score, where the environment's code runs, and makes the reward of it
- `rubric`: what scores, weights, maxima and minima of parts may be, and how parts add up
- `rescored`: what another reward says of the same attempts, group by group
- `cases`: the tests that a specification brings with it
- `specification`, `graders`, `judges`: a reward that is written without Python, readers of text, and models that judge
- `review`: which attempts people are asked about, and what they say
- `audit`: what attacks a reward before anything is trained on it
"""
