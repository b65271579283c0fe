"""Training and sampling by several processes in Ray: what they compute is what one would.

A `demand` says what a run needs of Ray. `director_process` is the entry: trainers and engines as the run sees them. It
asks the `director`, a process of its own, since Ray ends a process that loses its head. The director starts Ray on this
machine (`local_cluster`), or joins one that runs already (`existing_cluster`), whose machines a `probe` describes.
`trainer_actors` are Ray's actors that train together, and are watched; each is a `trainer_actor`, which trains its
share of a round. `engine_actors` start servers, which the run asks itself.
"""
