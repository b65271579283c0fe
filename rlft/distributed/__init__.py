"""Training and sampling by several processes in Ray: what they compute is what one would.

`trainers` and `engines` are the entries. Both ask the `director`, a process of its own, since Ray ends a process that
loses its head; `director_process` is that process as the run sees it, `messages` are what they say to each other, and a
`demand` says what the run needs of Ray, and `words` are those of errors. The director starts Ray on this machine
(`local_cluster`), or joins one that runs already (`existing_cluster`), whose `machines` a `probe` has described.
`trainer_actors` are Ray's actors that train together, and are watched: each `trainer_actor`, which is in a `place`,
trains its share of a round and says by its `pulse` how it gets on, and talks to the others by torch's collectives
(`torch_world`). `engine_actors` start servers, each in an `engine_actor`; the run asks these itself.
"""
