"""Pipelines chain steps into runs: `train` is the whole way from tasks to the registry, `evaluate` compares models.

Two use the attempts again that a run has stored: `rescore` scores them by another reward, and `retrain` trains
otherwise on them.

What pipelines share:

- `stages`: calls the steps with a config's settings
- `showing`: shows a stage while it goes on, and names the settings to lower when its memory runs out
- `rounds`: the rounds of training, with how they get their tasks, their validations and what MLflow shows of their
  attempts, and what they have come to
- `watching`: the monitors, which are asked after each round
- `beside`: what stands beside the comparison of arms: several attempts, contamination and forgetting
- `gate`: what is asked of MLflow about the tasks of the gate
- `arms`, `conclusion`: evaluate all policies that are compared; with that, end a run: decide, register and write what
  came of it into its summary
- `observer`: is given what the steps of a run return, logs that to MLflow and fills the summary
- `opening`: opens and closes what a run leaves beside its artifacts
- `scenarios`: evaluates policies on a suite, and says what stands beside that
- `models`: the models that `evaluate` is given
- `replay`: what `evaluate`, `rescore` and `retrain` share
- `promotion_plan`: plans how a run that is over is decided on once more, by the end of `train`
"""
