"""Training by several processes in Ray: what they compute is what one would.

`director` is the entry: the trainers as the run sees them, and a process of its own that uses Ray, since Ray ends a
process that loses its head. It starts Ray on this machine or joins one that runs already (`cluster`), and has actors
train together, each a `trainer_actor` with its share of a round.
"""
