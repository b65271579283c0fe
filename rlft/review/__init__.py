"""What people look at of a round, and what their words become: answers, cases of a reward, and preferences.

- `choosing`: the highest-paid, the most disputed and random attempts of a round
- `full`: what a full reward is, so that attempts of several environments can be compared
- `opinions`: what one person said of one attempt
- `golds`, `cases`, `preferences`: what these become, in the forms in which rlft reads them again
"""
