"""Chooses the train tasks of a round, and replaces those whose attempts do not differ.

- `epochs`: tasks in epochs, those of several environments as often as their shares say
- `rates`: how often each task was solved, and what that says of the policy of today
- `draw`: the tasks of a round and those that may replace them, with the reason of each
"""
