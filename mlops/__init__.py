"""What surrounds the steps of a pipeline: ZenML, MLflow, and the folder that holds its runs.

What is needed first:

- `clone`: where the files of rlft itself lie
- `display`: the terminal, and how far the stages of a run are
- `home`: the folder `.rlft`, its databases, and the processes that use it
- `tracking`: runs, curves and traces in MLflow
- `registry`: versions of a model, and what a registered one answers
- `ids`: the names under which pipelines store what they make
- `serving`: a registered version over HTTP, until it is told to end
- `use`: what people asked a served model, read for the tasks of a run
- `stacks`: where steps run and where their artifacts lie, in ZenML's words

Then the life of a run:

- `summary`: the contract that says what came of it, and the sentences that are made of it
- `runs`: its name, code, commits and end; how it is found and started
- `stored`: its rollouts, tasks and policies, found and read again, also those of several runs
- `resume`: whether a run may go on as it is, and how a step's results are made again
- `review`: people asked about its attempts in MLflow, and what they said
- `removal`: how old runs go
- `record`: what a run that goes on writes into MLflow and its summary
- `runtime`: what a step needs beside its artifacts: engines, environments, cache keys and tags
- `schedules`: what runs are due, why, and the processes that look after them
- `doctor`: what is missing or broken on this machine and in its home
"""
