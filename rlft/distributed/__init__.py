"""Training by several processes: what they compute is what one would.

`trainers` is the entry. It asks the `director`, a process of its own, since Ray ends a process that loses its head.
That starts Ray on this machine (`cluster`), or joins a cluster that runs already (`joined`), whose machines a `probe`
has described; and it has a `crew` train, and watches over that. In each process of the crew a `worker` trains its share
of a round, which it is given as a `job`, and `group` is the team that the workers form.
"""
