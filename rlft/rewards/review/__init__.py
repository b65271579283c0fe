"""What people look at of a round, and what their words become: answers, cases of a reward, and preferences.

- `choosing`: the highest-paid, the most disputed and random attempts of a round
- `opinions`: what one person said of one attempt, and what that becomes, in the forms in which rlft reads it again
"""
