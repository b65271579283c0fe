"""What a run logs to MLflow.

- `run`, `writer`: the MLflow run, which never stops training; what writes into it, each thing once
- `experiments`: finding an experiment, unless it is deleted
- `root_tags`: the tag by which it is found again
- `missed`, `patience`: what could not be written, kept in a file; how long a store that is away is left alone
- `values`: what is logged, in the form that MLflow takes
- `system`: how the machine is used while a run goes on
- `traces`, `spans`: rollouts as conversations that MLflow shows
- `evaluation_runs`, `evaluation_traces`: evaluations of models, in the shape of MLflow's own
- `scorers`, `scorer_feedback`: scorers of MLflow that score attempts; what they say, as assessments
- `sft_curves`, `control_curves`: the curves of supervised training, and what was tried for the controls
- `view`: the view of an experiment's runs that is opened first
- `address`, `reach`: where MLflow is and with which credentials; whether it answers
- `noted_code`: the commits and versions that a run has noted
- `answers`: asking for what a run cannot do without, such as the champion
"""
