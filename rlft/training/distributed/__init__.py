"""Training by several processes in Ray: what they compute is what one would.

`director_process` is the entry: the trainers as the run sees them. It asks the `director`, a process of its own, since
Ray ends a process that loses its head. The director starts Ray on this machine or joins one that runs already
(`cluster`), and has actors train together, each a `trainer_actor` with its share of a round.
"""
