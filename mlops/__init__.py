"""What surrounds the steps of a pipeline: ZenML, MLflow, and the folder that holds its runs.

What is needed first:

- `home`: the folder `.rlft`, its databases, and the processes that use it
- `tracking`: runs, curves and traces in MLflow
- `registry`: versions of a model, who is champion, and a registered version over HTTP
- `ids`: the names under which pipelines store what they make
- `stacks`: where steps run and where their artifacts lie, in ZenML's words

Then the life of a run:

- `summary`: the contract that says what came of it, and the sentences that are made of it
- `runs`: its name, code, commits and end; how it is found, started, resumed and removed, what it has stored, and what
  its steps need beside artifacts: engines, environments, cache keys
- `schedules`: what runs are due, why, and the processes that look after them
"""
