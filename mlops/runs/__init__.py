"""What is known of a run.

- `starting`, `runs`: what a run is started and resumed with; finding, ending and choosing runs
- `ids`, `labels`, `commits`: the names of what it stores; its own name, note and tags; the commits of its code
- `record`, `lineage`: what a run that goes on writes into MLflow and its summary; what became of its model
- `summary`, `comparison`, `summary_file`: the contract that says what came of it, what is computed for it, and its file
- `stored_rollouts`, `stored_files`, `retention`: its rollouts, found and read again, and how long they are kept
- `verification`, `redo`: whether what it has stored is still what it was, and how a step's results are made again
- `listing`, `removal` and its parts: the runs of a home, read without ZenML, and how old ones go
"""
