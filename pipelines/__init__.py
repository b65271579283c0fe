"""Pipelines chain steps into runs: `train` is the whole way from tasks to the registry, `evaluate` compares models.

Two use the attempts again that a run has stored: `rescore` scores them by another reward, and `retrain` trains
otherwise on them.

What pipelines share:

- `stages`: calls the steps with a config's settings, a file for each part of a run
- `showing`: shows a stage while it goes on, and names the settings to lower when its memory runs out
- `rounds`: the rounds of training; `rounds_done`: what they have come to; `validation`: evaluates policies between them
- `watching`: the monitors, which are asked after each round
- `attempts`: shows attempts of a round in MLflow
- `draws`: how these get their tasks
- `controls`, `prompted`: the controls that are trained, and those that have examples in their prompts
- `judges`: whether judges still score as they did
- `gate`: what is asked of MLflow about the tasks of the gate
- `caveats`: evaluation tasks that are not new, and what training cost elsewhere
- `arms`, `promotion`, `conclusion`: evaluate all policies that are compared; decide and register; and, with both, end
  a run and write what came of it into its summary
- `scenarios`, `models`: evaluates policies on a suite; opens the models that `evaluate` is given
- `suite_caveats`: what stands beside an evaluation: tasks that are not new, and how models predict other texts
- `reporting`: tells MLflow what an evaluation came to
- `replay`: what `rescore` and `retrain` share
- `promotion_plan`: plans how a run that is over is decided on once more, by the end of `train`
"""
