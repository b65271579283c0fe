"""Scores rollouts by an environment's reward, and adds the parts of each score up to a checked total.

- `scoring`: scores stored rollouts by `compute_reward`, also as a config says; a failure is never a 0
- `scores`: asks the environment's code for the scores, several side by side, each within a time limit
- `rubric`: what scores, weights, maxima and minima of parts may be, how they add up, and the reward that they make
- `rescored`: what another reward says of the same attempts, group by group
- `cases`: the tests that a specification brings with it
- `specification`, `graders`, `judges`: a reward that is written without Python, readers of text, and models that judge
- `review`: which attempts people are asked about, and what their words become
- `audit`: what attacks a reward before anything is trained on it
"""
