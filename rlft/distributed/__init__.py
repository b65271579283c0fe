"""Training by several processes: what they compute is what one would.

`trainers` is the entry: it starts a process for each trainer in the `cluster`, Ray, and watches over them. In each a
`worker` trains its share of a round, which it is given as a `job`, and `group` is the team that the workers form.
"""
