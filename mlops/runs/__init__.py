"""A run: its name and note, its code, how it is found, started, resumed and removed, and what it has stored.

- `finding`: finding, ending and choosing runs in ZenML; noting their artifacts
- `store`: the folder of each run of a home, the hashes of its artifacts, and its config as it is stored
- `listing`: the runs of a home, read without ZenML; what is said of a name that means none of them
- `shared`: a run as ZenML's and MLflow's clients tell it
- `results`, `report`: its tasks, rollouts, curves, settings and code; what is needed for the page about it
- `policies`: its policies by name, and which weights are kept
- `replayed`: what a rescoring or a retraining uses again
- `resuming`: how it is started and resumed; whether its code has changed, which results are damaged, and what is made
  again then
- `removing`: what goes with a run and why something stays; removing it
- `labels`: its own name, note and tags; the name of one that was given none
- `identity`: the commits of its code; what ran

What its steps need beside their artifacts:

- `runtime`: the policies, engine and environment of a process, which the steps of a run share, and the trainers and
  engines that Ray starts; the environment of a config; what the pod does that takes the place of one which was ended
- `cache_policies`: which code a step's cached result depends on
- `signals`: what Ctrl-C, SIGTERM and a closed terminal do

What people give back:

- `use`: what people asked a served version, read back as tasks of a run
- `review`: people asked about attempts of a run, and what they said
"""
