"""What runs have stored, found and read again.

- `rollouts`: a run of a home or of a stack, its rollouts and tasks
- `shared`: a run as ZenML's and MLflow's clients tell it
- `policies`, `named_models`: the policies of a run by name; the models that are named for an evaluation, looked up
  before it begins
- `replayed`: what a rescoring or a retraining uses again
- `pass_rates`: how often earlier runs of the same experiment have solved each task
- `retention`: which weights are kept
- `verification`: whether what it has stored is still what it was
- `past_work`: what the steps of past runs have taken, for an estimate of the next one
- `diagnosis`: what is needed of a run to say why its reward does not rise
- `stack_runs`: the runs of everybody who shares a stack
- `report`, `summaries`: what is needed for the page about it; its summary
- `contrast`, `contrast_sampling`, `contrasted`: what is needed of runs to put them side by side; how their attempts
  were sampled; all of it together
"""
