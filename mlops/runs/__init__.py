"""What is known of a run, from its name to its removal.

- `starting`, `runs`: what a run is started and resumed with; finding, ending and choosing runs
- `ids`, `labels`, `commits`: the names of what it stores; its own name, note and tags; the commits of its code
- `record`, `identity`, `lineage`: what a run that goes on writes into MLflow and its summary; what ran; what became
  of its model
- `summary`, `sections`, `comparison`, `summary_file`: the contract that says what came of it, its parts, what is
  computed for it, and its file
- `summary_target`: the file that `--summary` names
- `stored_rollouts`, `stored_files`, `retention`: its rollouts and tasks, found and read again, and which weights are
  kept
- `verification`, `redo`: whether what it has stored is still what it was, and how a step's results are made again
- `caveats`: what stands beside a result: tasks that are not new, and what training cost elsewhere
- `changed_code`: whether a run's own code is what it began with
- `controls`: what the controls of a run are called, and the sentences about them
- `diagnosis`: what is needed of a run to say why its reward does not rise
- `blocks`, `run_report`: what came of it in blocks of text; what is needed for the page about it
- `contrast`, `contrasted`: what is needed of runs to put them side by side; both together
- `sweep`: the MLflow run above the runs of a sweep, with their means
- `version_facts`: what is known of a version when its policy is registered
- `verdict`, `result`: what came of a run in sentences, and how MLflow shows it first
- `artifact_table`: where its artifacts lie, for the day on which ZenML's database is lost
- `evaluations`, `policies`: what an evaluation of models came to; the policies of a run by name
- `named_models`: the models that are named for an evaluation, looked up before it begins
- `listing`, `unknown`: the runs of a home, read without ZenML; what is said of a name that means none of them
- `removal`, with `removal_plan`, `removal_rows` and `removal_note`: how old runs go
"""
