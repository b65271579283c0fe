"""Rewards: from the parts that an environment pays to a checked total.

- `scoring`: every stored rollout through `compute_reward`, with a time limit; errors stay errors
- `worker`: the thread that scores, and that can be left behind when a reward hangs
- `rubric`: what a part may be, and how parts add up
- `numbers`: exact numbers from the notations people and models write
- `json_object`: the one JSON object in a text
- `latex`, `expressions`: answers in LaTeX compared by math-verify, and which texts may be evaluated at all
- `answers`, `cited`: short answers in words as SQuAD compares them; an answer with its sources
- `audit`, `attacks`: attacks on a reward before it is trained on, and their texts
- `check`, `trials`: an environment tried as its author would, and the attempts it is tried with
"""
