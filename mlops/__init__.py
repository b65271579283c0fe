"""What surrounds the steps of a pipeline: ZenML, MLflow, and the folder that holds its runs.

- `display`: the terminal, and how far the stages of a run are
- `home`: the folder `.rlft`, its databases, and the processes that use it
- `tracking`: runs, curves and traces in MLflow
- `registry`: versions of a model, and what a registered one answers
- `serving`: a registered version over HTTP, until it is told to end
- `stacks`: where steps run and where their artifacts lie, in ZenML's words
- `runs`: what is known of a run: its record, name, commits, lineage, summary and stored rollouts
- `clone`: where the files of rlft itself lie
- `runtime`: what a step needs beside its artifacts: engines, environments, cache keys and tags
"""
