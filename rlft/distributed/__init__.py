"""Training and sampling by several processes in Ray: what they compute is what one would.

`trainers` and `engines` are the entries. Both ask the `director`, a process of its own, since Ray ends a process that
loses its head; `directed` is that process as the run sees it, `messages` are what they say to each other, and a
`demand` says what the run needs of Ray. The director starts Ray on this machine (`cluster`), or joins a cluster that
runs already (`joined`), whose `machines` a `probe` has described. It has a `crew` train, and watches over that: in
each process of the crew, which is in a `place`, a `worker` trains its share of a round and says by its `pulse` how it
gets on, and `group` is the team that the workers form. And it has an `engine_crew` start servers, each in an
`engine_host`; the run asks these itself.
"""
