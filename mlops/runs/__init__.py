"""A run: its name and note, its code, how it is found, started, resumed and removed, and what it has stored.

- `starting`: what a run is started and resumed with
- `finding`: finding, ending and choosing runs in ZenML
- `store`: the folder of each run of a home, the hashes of its artifacts, and its config as it is stored
- `noting`: what a run notes while it goes on: artifacts, signs of life, and what became of its model
- `listing`: the runs of a home, read without ZenML; what is said of a name that means none of them
- `shared`: a run, and the runs of everybody, as ZenML's and MLflow's clients tell them
- `results`, `report`: its tasks, rollouts, curves, settings and code; what is needed for the page about it
- `policies`: its policies by name, and which weights are kept
- `replayed`: what a rescoring or a retraining uses again
- `pass_rates`: how often earlier runs of the same experiment have solved each task
- `resuming`: whether its code has changed, which results are damaged, and what is made again then
- `removing`: what goes with a run and why something stays; removing it
- `labels`: its own name, note and tags; the name of one that was given none
- `commits`, `identity`: the commits of its code; what ran
"""
